package mqtt

import "testing"

func TestSessions(t *testing.T) {
	scripts{
		"a session that is not stored is gone": `
			a> CONNECT id=a clean
			a< CONNACK 0x00
			a> SUBSCRIBE 1 t:qos=1
			a< SUBACK 1 0x01
			queue mqtt/a none
			a> DISCONNECT
			a< closed
			a> CONNECT id=a
			a< CONNACK 0x00
			a> DISCONNECT
			a< closed
			a> CONNECT id=a
			a< CONNACK 0x00 present`,
		"a clean start ends a session": `
			a> CONNECT id=a
			a< CONNACK 0x00
			a> SUBSCRIBE 1 t:qos=1
			a< SUBACK 1 0x01
			queue mqtt/a 0
			a> DISCONNECT
			a< closed
			a> CONNECT id=a clean
			a< CONNACK 0x00
			queue mqtt/a none`,
		"expiry": `
			a> CONNECT v=5 id=a clean expiry=100
			a< CONNACK 0x00
			a> SUBSCRIBE 1 t:qos=1 u
			a< SUBACK 1 0x01 0x00
			a> DISCONNECT
			a< closed
			advance 99s
			queue mqtt/a 0
			advance 2s
			queue mqtt/a none
			a> CONNECT v=5 id=a expiry=100
			a< CONNACK 0x00`,
		"expiry counts across restarts": `
			a> CONNECT v=5 id=a clean expiry=100
			a< CONNACK 0x00
			a> SUBSCRIBE 1 t:qos=1
			a< SUBACK 1 0x01
			a> DISCONNECT
			a< closed
			advance 60s
			restart
			queue mqtt/a 0
			advance 50s
			queue mqtt/a none`,
		"a session that was connected at a crash expires from the start on": `
			a> CONNECT v=5 id=a clean expiry=100
			a< CONNACK 0x00
			a> SUBSCRIBE 1 t:qos=1
			a< SUBACK 1 0x01
			advance 200s
			crash
			advance 99s
			queue mqtt/a 0
			advance 2s
			queue mqtt/a none`,
		"expiry is capped and told": `
			option expiry=60s
			a> CONNECT v=5 id=a clean expiry=100
			a< CONNACK 0x00 expiry=60
			b> CONNECT id=b
			b< CONNACK 0x00
			b> SUBSCRIBE 1 t:qos=1
			b< SUBACK 1 0x01
			b drops
			advance 59s
			queue mqtt/b 0
			advance 2s
			queue mqtt/b none`,
		"DISCONNECT changes the expiry": `
			a> CONNECT v=5 id=a clean expiry=100
			a< CONNACK 0x00
			a> SUBSCRIBE 1 t:qos=1
			a< SUBACK 1 0x01
			a> DISCONNECT 0x00 expiry=10
			a< closed
			advance 11s
			queue mqtt/a none
			a> CONNECT v=5 id=a clean expiry=100
			a< CONNACK 0x00
			a> SUBSCRIBE 1 t:qos=1
			a< SUBACK 1 0x01
			a> DISCONNECT 0x00 expiry=0
			a< closed
			queue mqtt/a none`,
		"subscriptions of QoS 0 are kept, and what comes meanwhile is not": `
			a> CONNECT id=a
			a< CONNACK 0x00
			a> SUBSCRIBE 1 t
			a< SUBACK 1 0x00
			a> DISCONNECT
			a< closed
			p> CONNECT id=p clean
			p< CONNACK 0x00
			p> PUBLISH t qos=1 id=1 p=1
			p< PUBACK 1
			crash
			a> CONNECT id=a
			a< CONNACK 0x00 present
			p> CONNECT id=p clean
			p< CONNACK 0x00
			p> PUBLISH t qos=1 id=1 p=2
			p< PUBACK 1
			a< PUBLISH t p=2`,
		"a client identifier is its user's": `
			option users=1
			a> CONNECT id=a user=x pass=of-x
			a< CONNACK 0x00
			b> CONNECT v=5 id=a user=y pass=of-y
			b< CONNACK 0x87
			b< closed
			a> PINGREQ
			a< PINGRESP
			a> DISCONNECT
			a< closed
			b> CONNECT id=a user=y pass=of-y
			b< CONNACK 0x05
			b< closed
			b> CONNECT id=b user=y pass=of-x
			b< CONNACK 0x04
			b< closed
			b> CONNECT v=5 id=b
			b< CONNACK 0x86
			b< closed`,
		"takeover": `
			a> CONNECT v=5 id=a clean expiry=100
			a< CONNACK 0x00
			a> SUBSCRIBE 1 t:qos=1
			a< SUBACK 1 0x01
			b> CONNECT v=5 id=a expiry=100
			b< CONNACK 0x00 present
			a< DISCONNECT 0x8E
			a< closed
			b> PUBLISH t qos=1 id=1 p=x
			b< PUBACK 1
			b< PUBLISH t qos=1 id=$id p=x`,
		"takeover beside a stuck socket": `
			a> CONNECT v=5 id=a clean expiry=100
			a< CONNACK 0x00
			a> SUBSCRIBE 1 t:qos=1
			a< SUBACK 1 0x01
			a stalls
			p> CONNECT id=p clean
			p< CONNACK 0x00
			p> PUBLISH t qos=1 id=1 big=900000; PUBLISH t qos=1 id=2 big=900000
			p< PUBACK 1
			p< PUBACK 2
			b> CONNECT v=5 id=a expiry=100
			advance 100ms
			b< CONNACK 0x00 present
			b< PUBLISH t qos=1 id=$one dup p=900000-bytes
			b< PUBLISH t qos=1 id=$two p=900000-bytes`,
		"the receive maximum of the new connection holds": `
			a> CONNECT v=5 id=a clean expiry=100
			a< CONNACK 0x00
			a> SUBSCRIBE 1 t:qos=2
			a< SUBACK 1 0x02
			p> CONNECT id=p clean
			p< CONNACK 0x00
			p> PUBLISH t qos=2 id=1 p=1; PUBLISH t qos=1 id=2 p=2; PUBLISH t qos=1 id=3 p=3
			p< PUBREC 1
			p< PUBACK 2
			p< PUBACK 3
			a< PUBLISH t qos=2 id=$one p=1
			a< PUBLISH t qos=1 id=$two p=2
			a< PUBLISH t qos=1 id=$three p=3
			a> PUBREC $one
			a< PUBREL $one
			a drops
			a> CONNECT v=5 id=a expiry=100 rm=2
			a< CONNACK 0x00 present
			a< PUBREL $one
			a< PUBLISH t qos=1 id=$two dup p=2
			a< nothing
			a> PUBCOMP $one
			a< PUBLISH t qos=1 id=$three dup p=3`,
		"QoS 2 that has gone meanwhile is released": `
			a> CONNECT v=5 id=a clean expiry=100
			a< CONNACK 0x00
			a> SUBSCRIBE 1 t:qos=2
			a< SUBACK 1 0x02
			p> CONNECT id=p clean
			p< CONNACK 0x00
			p> PUBLISH t qos=2 id=1 p=1
			p< PUBREC 1
			a< PUBLISH t qos=2 id=$one p=1
			a drops
			purge mqtt/a
			a> CONNECT v=5 id=a expiry=100
			a< CONNACK 0x00 present
			a< PUBREL $one
			a> PUBCOMP $one`,
		"QoS 2 of a message that is purged meanwhile is completed": `
			a> CONNECT v=5 id=a clean expiry=100
			a< CONNACK 0x00
			a> SUBSCRIBE 1 t:qos=2
			a< SUBACK 1 0x02
			a> PUBLISH t qos=1 id=1 p=1
			a< PUBACK 1
			a< PUBLISH t qos=1 id=$one p=1
			a> PUBACK $one
			a> PUBLISH t qos=2 id=1 p=1
			a< PUBREC 1
			a< PUBLISH t qos=2 id=$two p=1
			purge mqtt/a
			a> PUBREC $two
			a< PUBREL $two
			a> PUBCOMP $two`,
		"QoS 2 is taken once through crashes": `
			a> CONNECT v=5 id=a clean expiry=100
			a< CONNACK 0x00
			s> CONNECT v=5 id=s clean expiry=100
			s< CONNACK 0x00
			s> SUBSCRIBE 1 t:qos=1
			s< SUBACK 1 0x01
			a> PUBLISH t qos=2 id=1 p=1
			a< PUBREC 1
			s< PUBLISH t qos=1 id=$one p=1
			s> PUBACK $one
			crash
			a> CONNECT v=5 id=a expiry=100
			a< CONNACK 0x00 present
			s> CONNECT v=5 id=s expiry=100
			s< CONNACK 0x00 present
			a> PUBLISH t qos=2 id=1 dup p=1
			a< PUBREC 1
			a> PUBREL 1
			a< PUBCOMP 1
			s< nothing
			a> PUBLISH t qos=2 id=1 p=2
			a< PUBREC 1
			s< PUBLISH t qos=1 id=$two p=2
			s> PUBACK $two
			a> PUBREL 1; PUBREL 1
			a< PUBCOMP 1
			a< PUBCOMP 1 0x92`,
		"an offline session is not lost with a crash": `
			a> CONNECT id=a
			a< CONNACK 0x00
			a> SUBSCRIBE 1 t:qos=1
			a< SUBACK 1 0x01
			a> DISCONNECT
			a< closed
			p> CONNECT v=5 id=p clean
			p< CONNACK 0x00
			p> PUBLISH t qos=1 id=1 p=1; PUBLISH t qos=1 id=2 p=2; PUBLISH t p=0
			p< PUBACK 1
			p< PUBACK 2
			crash
			a> CONNECT id=a
			a< CONNACK 0x00 present
			a< PUBLISH t qos=1 id=$one p=1
			a< PUBLISH t qos=1 id=$two p=2
			a> PUBACK $two; PUBACK $one
			queue mqtt/a 0`,
	}.run(t)
}

func TestWills(t *testing.T) {
	scripts{
		"loss": `
			s> CONNECT v=5 id=s clean
			s< CONNACK 0x00
			s> SUBSCRIBE 1 w/#:qos=2:rap
			s< SUBACK 1 0x02
			a> CONNECT id=a clean will=w/a:gone willqos=1 willretain
			a< CONNACK 0x00
			a drops
			s< PUBLISH w/a qos=1 id=$a retain p=gone
			s> PUBACK $a
			b> CONNECT id=b clean will=w/b:gone
			b< CONNACK 0x00
			b> DISCONNECT
			b< closed
			s< nothing
			c> CONNECT v=5 id=c clean will=w/c:gone willuser=k:v willuser=k:w willexpiry=9 willct=x/y willrt=z
			c< CONNACK 0x00
			c> DISCONNECT 0x04
			c< closed
			s< PUBLISH w/c p=gone expiry=9 ct=x/y rt=z user=k:v user=k:w
			d> CONNECT id=d clean will=w/d: keepalive=10
			d< CONNACK 0x00
			advance 16s
			d< closed
			s< PUBLISH w/d`,
		"delay": `
			s> CONNECT v=5 id=s clean
			s< CONNACK 0x00
			s> SUBSCRIBE 1 w/#
			s< SUBACK 1 0x00
			a> CONNECT v=5 id=a clean expiry=100 will=w/a:gone willdelay=10
			a< CONNACK 0x00
			a drops
			advance 9s
			s< nothing
			a> CONNECT v=5 id=a expiry=100 will=w/a:again willdelay=10
			a< CONNACK 0x00 present
			advance 20s
			s< nothing
			a drops
			advance 11s
			s< PUBLISH w/a p=again
			# The session ends before the delay.
			b> CONNECT v=5 id=b clean expiry=5 will=w/b:gone willdelay=10
			b< CONNACK 0x00
			b drops
			advance 4s
			s< nothing
			advance 2s
			s< PUBLISH w/b p=gone
			# A clean start ends the session.
			c> CONNECT v=5 id=c clean expiry=50 will=w/c:gone willdelay=10
			c< CONNACK 0x00
			c drops
			c> CONNECT v=5 id=c clean
			c< CONNACK 0x00
			s< PUBLISH w/c p=gone`,
		"takeover": `
			s> CONNECT v=5 id=s clean
			s< CONNACK 0x00
			s> SUBSCRIBE 1 w/#
			s< SUBACK 1 0x00
			a> CONNECT v=5 id=a clean expiry=100 will=w/a:gone
			a< CONNACK 0x00
			b> CONNECT v=5 id=a expiry=100 will=w/a:later willdelay=5
			b< CONNACK 0x00 present
			a< DISCONNECT 0x8E
			a< closed
			s< PUBLISH w/a p=gone
			c> CONNECT v=5 id=a expiry=100
			c< CONNACK 0x00 present
			b< DISCONNECT 0x8E
			b< closed
			advance 10s
			s< nothing`,
		"through a crash": `
			a> CONNECT v=5 id=a clean expiry=100 will=w/a:gone willdelay=10 willretain
			a< CONNACK 0x00
			b> CONNECT v=5 id=b clean will=w/b:gone willretain
			b< CONNACK 0x00
			c> CONNECT v=5 id=c clean expiry=100 will=w/c:gone willretain
			c< CONNACK 0x00
			crash
			c> CONNECT v=5 id=c expiry=100
			c< CONNACK 0x00 present
			s> CONNECT v=5 id=s clean
			s< CONNACK 0x00
			advance 29s
			s> SUBSCRIBE 1 w/#
			s< SUBACK 1 0x00
			s< nothing
			advance 2s
			s< PUBLISH w/$one p=gone
			s< PUBLISH w/$two p=gone
			advance 60s
			s< nothing`,
	}.run(t)
}
