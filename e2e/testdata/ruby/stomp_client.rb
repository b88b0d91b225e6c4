# Drives the STOMP frontend with an unmodified gem stomp.
#
# usage: stomp_client.rb VERSION
require "securerandom"
require "stomp"
require "timeout"

VERSION = ARGV[0]

def check(ok, text = "not so")
  raise "#{text} (#{caller(1..1).first})" unless ok
end

class Session
  attr_reader :client, :messages

  def initialize(port: ENV["STOMP_PORT"], beat: nil, reliable: false)
    headers = { "accept-version" => VERSION, "host" => "localhost" }
    headers["heart-beat"] = beat if beat
    @client = Stomp::Client.new(
      hosts: [{ login: "user", passcode: "secret", host: "127.0.0.1", port: port.to_i }],
      connect_headers: VERSION == "1.0" ? {} : headers, reliable: reliable,
      initial_reconnect_delay: 0.05, max_reconnect_delay: 0.2, dmh: false, start_timeout: 10
    )
    check(@client.protocol == VERSION, @client.protocol)
    @messages = Queue.new
  end

  # Waits for the RECEIPT of what the block sends with the lambda that it gets.
  def receipt
    told = Queue.new
    yield ->(r) { told << r }
    Timeout.timeout(10) { told.pop }
  end

  def send(destination, body, headers = {})
    receipt { |done| @client.publish(destination, body, headers) { |r| done.call(r) } }
  end

  def subscribe(destination, ack, headers = {})
    headers = headers.merge(ack: ack)
    headers[:id] = "sub#{destination}" unless VERSION == "1.0"
    @client.subscribe(destination, headers) { |m| @messages << m }
  end

  def next
    Timeout.timeout(10) { @messages.pop }
  end

  def bodies(count)
    Array.new(count) { self.next.body }
  end

  def nothing(seconds = 0.3)
    sleep(seconds)
    check(@messages.empty?, "a message too many")
  end

  def ack(message, headers = {})
    receipt { |done| @client.ack(message, headers) { |r| done.call(r) } }
  end

  def close
    @client.close
  end
end

def test_ack_modes
  s = Session.new
  modes = %w[auto client client-individual]
  modes.each { |mode| 4.times { |i| s.send("/queue/#{mode}", i.to_s) } }
  s.subscribe("/queue/auto", "auto")
  check(s.bodies(4) == %w[0 1 2 3])
  s.close
  %w[client client-individual].each do |mode|
    s = Session.new
    s.subscribe("/queue/#{mode}", mode)
    got = Array.new(4) { s.next }
    check(got.all? { |m| m.headers["redelivered"] == "false" })
    s.ack(got[2])
    s.close
  end
  s = Session.new
  { "auto" => [], "client" => %w[3], "client-individual" => %w[0 1 3] }.each do |mode, left|
    s.subscribe("/queue/#{mode}", "auto")
    got = s.bodies(left.size)
    check(got == left, "#{mode} has #{got}")
  end
  s.nothing
  s.close
end

def test_nack
  return if VERSION == "1.0" # the gem refuses it

  s = Session.new
  s.send("/queue/nack", "again")
  s.subscribe("/queue/nack", "client-individual")
  s.client.nack(s.next)
  m = s.next
  check(m.headers["redelivered"] == "true" && m.headers["JMSXDeliveryCount"] == "2", m.headers)
  s.client.nack(m, "requeue" => "false") # there is no dead-letter queue
  s.nothing
  s.close
end

def test_transactions
  s = Session.new
  s.send("/queue/in", "a")
  s.subscribe("/queue/in", "client-individual")
  m = s.next
  s.client.begin("t1")
  s.send("/queue/out", "dropped", transaction: "t1")
  s.ack(m, transaction: "t1")
  s.client.abort("t1")
  check(s.next.body == "a") # the gem plays it again
  s.client.begin("t2")
  s.send("/queue/out", "kept", transaction: "t2")
  s.ack(m, transaction: "t2")
  s.client.commit("t2")
  s.close
  s = Session.new
  s.subscribe("/queue/in", "auto")
  s.subscribe("/queue/out", "auto")
  check(s.next.body == "kept")
  s.nothing
  s.close
end

def test_contents
  s = Session.new
  headers = { "plain" => "x", "umlaut" => "Zürich €" }
  # What the gem makes of backslashes and ends of lines is not what was sent.
  headers.update("colon:name" => "a:b", "empty" => "") unless VERSION == "1.0"
  bodies = ["", "ascii", "Zürich € 😀", "with\0null", "\n\nlines\r\n", "x" * 1_000_000, (0..255).to_a.pack("C*")]
  s.subscribe("/queue/contents", "auto")
  bodies.each do |body|
    s.send("/queue/contents", body, headers.merge("content-type" => "text/plain"))
    m = s.next
    check(m.body.b == body.b, "got #{m.body[0, 100].inspect}")
    check(m.headers["content-type"] == "text/plain" && m.headers["destination"] == "/queue/contents", m.headers)
    headers.each { |name, value| check(m.headers[name].b == value.b, "#{name} in #{m.headers}") }
  end
  s.close
end

def test_prefetch
  s = Session.new
  5.times { |i| s.send("/queue/prefetch", i.to_s) }
  s.subscribe("/queue/prefetch", "client-individual", "activemq.prefetchSize" => "2")
  first = s.next
  second = s.next
  s.nothing
  s.ack(second)
  check(s.next.body == "2")
  s.nothing(0.1)
  s.ack(first)
  check(s.next.body == "3")
  s.close
end

def test_heart_beats
  return if VERSION == "1.0"

  s = Session.new(beat: "1000,1000")
  check(s.client.connection_frame.headers["heart-beat"] == "1000,1000", s.client.connection_frame.headers)
  sleep(3.2)
  s.send("/queue/beats", "alive")
  check(s.client.hbsend_count >= 2, "#{s.client.hbsend_count} heart-beats")
  s.close
end

# The gem connects and subscribes again by itself.
def test_restart
  s = Session.new(port: ENV["STOMP_RELAY_PORT"], reliable: true)
  3.times { |i| s.send("/queue/restart", i.to_s) }
  s.subscribe("/queue/restart", "client-individual")
  got = Array.new(3) { s.next }
  s.ack(got[1])
  puts "RESTART"
  $stdin.gets
  again = Array.new(2) { s.next }
  check(again.map(&:body) == %w[0 2], again.map(&:body))
  again.each { |m| s.ack(m) }
  s.nothing
  s.close
end

$stdout.sync = true
Thread.abort_on_exception = true
%i[test_ack_modes test_nack test_transactions test_contents test_prefetch test_heart_beats test_restart].each do |name|
  began = Time.now
  method(name).call
  puts format("%s passed in %.1f s", name, Time.now - began)
end
