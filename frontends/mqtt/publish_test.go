package mqtt

import "testing"

func TestRetained(t *testing.T) {
	scripts{
		"values": `
			p> CONNECT v=5 id=p clean
			p< CONNACK 0x00
			p> PUBLISH r/a qos=1 id=1 retain p=1 user=k:v expiry=60 ct=x
			p< PUBACK 1 0x10
			p> PUBLISH r/b retain p=2
			p> PUBLISH r/c qos=2 id=1 retain p=3; PUBREL 1
			p< PUBREC 1 0x10
			p< PUBCOMP 1
			p> PUBLISH r/d qos=1 id=1 retain p=4
			p< PUBACK 1 0x10
			p> PUBLISH r/d qos=1 id=1 retain
			p< PUBACK 1 0x10
			crash
			advance 10s
			a> CONNECT v=5 id=a clean
			a< CONNACK 0x00
			a> SUBSCRIBE 1 r/#:qos=2 sub=5
			a< SUBACK 1 0x02
			a<? PUBLISH r/b retain p=2 sub=5
			a< PUBLISH r/a qos=1 id=$a retain p=1 expiry=50 ct=x sub=5 user=k:v
			a< PUBLISH r/c qos=2 id=$c retain p=3 sub=5
			a> PUBACK $a; PUBREC $c
			a< PUBREL $c
			a> PUBCOMP $c
			advance 51s
			b> CONNECT id=b clean
			b< CONNACK 0x00
			b> SUBSCRIBE 1 r/+
			b< SUBACK 1 0x00
			b< PUBLISH r/b retain p=2
			b< PUBLISH r/c retain p=3`,
		"retain handling": `
			p> CONNECT v=5 id=p clean
			p< CONNACK 0x00
			p> PUBLISH r retain p=1
			a> CONNECT v=5 id=a clean
			a< CONNACK 0x00
			a> SUBSCRIBE 1 r:rh=2
			a< SUBACK 1 0x00
			a< nothing
			a> SUBSCRIBE 2 r:rh=1
			a< SUBACK 2 0x00
			a< nothing
			a> SUBSCRIBE 3 r
			a< SUBACK 3 0x00
			a< PUBLISH r retain p=1
			a> UNSUBSCRIBE 4 r
			a< UNSUBACK 4 0x00
			a> SUBSCRIBE 5 r:rh=1
			a< SUBACK 5 0x00
			a< PUBLISH r retain p=1`,
		"as published": `
			p> CONNECT v=5 id=p clean
			p< CONNACK 0x00
			a> CONNECT v=5 id=a clean
			a< CONNACK 0x00
			a> SUBSCRIBE 1 r:rap
			a< SUBACK 1 0x00
			b> CONNECT v=5 id=b clean
			b< CONNACK 0x00
			b> SUBSCRIBE 1 r
			b< SUBACK 1 0x00
			p> PUBLISH r retain p=1; PUBLISH r p=2
			a< PUBLISH r retain p=1
			a< PUBLISH r p=2
			b< PUBLISH r p=1
			b< PUBLISH r p=2`,
		"the parent of a wildcard": `
			p> CONNECT id=p clean
			p< CONNACK 0x00
			p> PUBLISH sport retain p=1
			a> CONNECT id=a clean
			a< CONNACK 0x00
			a> SUBSCRIBE 1 sport/#
			a< SUBACK 1 0x00
			a< PUBLISH sport retain p=1
			b> CONNECT id=b clean
			b< CONNACK 0x00
			b> SUBSCRIBE 1 +/#
			b< SUBACK 1 0x00
			b< PUBLISH sport retain p=1`,
	}.run(t)
}

func TestDelivery(t *testing.T) {
	scripts{
		"overlapping subscriptions get one copy, with all identifiers": `
			a> CONNECT v=5 id=a clean
			a< CONNACK 0x00
			a> SUBSCRIBE 1 t/# sub=1
			a< SUBACK 1 0x00
			a> SUBSCRIBE 2 t/+:qos=2 sub=2
			a< SUBACK 2 0x02
			a> SUBSCRIBE 3 t/x:qos=1 sub=3
			a< SUBACK 3 0x01
			p> CONNECT v=5 id=p clean
			p< CONNACK 0x00
			p> PUBLISH t/x p=0; PUBLISH t/x qos=1 id=1 p=1; PUBLISH t/x qos=2 id=2 p=2; PUBLISH t/y/z qos=1 id=3 p=3
			p< PUBACK 1
			p< PUBREC 2
			p< PUBACK 3
			a<? PUBLISH t/x p=0 sub=1 sub=2 sub=3
			a<? PUBLISH t/x qos=1 id=$one p=1 sub=1 sub=2 sub=3
			a<? PUBLISH t/x qos=2 id=$two p=2 sub=1 sub=2 sub=3
			a<? PUBLISH t/y/z p=3 sub=1`,
		"a subscription is replaced": `
			a> CONNECT v=5 id=a clean expiry=100
			a< CONNACK 0x00
			a> SUBSCRIBE 1 t:qos=1 sub=1
			a< SUBACK 1 0x01
			a> SUBSCRIBE 2 t sub=2
			a< SUBACK 2 0x00
			a> PUBLISH t qos=1 id=1 p=1
			a< PUBACK 1
			a< PUBLISH t p=1 sub=2
			a> SUBSCRIBE 3 t:qos=2
			a< SUBACK 3 0x02
			a> PUBLISH t qos=1 id=1 p=2
			a< PUBACK 1
			a< PUBLISH t qos=1 id=$two p=2
			a> PUBACK $two; DISCONNECT
			a< closed
			a> CONNECT v=5 id=a expiry=100
			a< CONNACK 0x00 present
			a> PUBLISH t qos=1 id=1 p=3
			a< PUBACK 1
			a< PUBLISH t qos=1 id=$three p=3
			a> PUBACK $three
			a> UNSUBSCRIBE 4 t t
			a< UNSUBACK 4 0x00 0x11
			a> PUBLISH t qos=1 id=1 p=4
			a< PUBACK 1 0x10`,
		"topic aliases": `
			a> CONNECT v=5 id=a clean alias=2
			a< CONNACK 0x00
			a> SUBSCRIBE 1 t/#
			a< SUBACK 1 0x00
			p> CONNECT v=5 id=p clean
			p< CONNACK 0x00
			p> PUBLISH t/1 alias=1 p=1; PUBLISH - alias=1 p=2; PUBLISH t/2 alias=1 p=3; PUBLISH - alias=1 p=4; PUBLISH t/3 p=5; PUBLISH t/3 p=6
			a< PUBLISH t/1 p=1 alias=1
			a< PUBLISH - p=2 alias=1
			a< PUBLISH t/2 p=3 alias=2
			a< PUBLISH - p=4 alias=2
			a< PUBLISH t/3 p=5
			a< PUBLISH t/3 p=6
			p> PUBLISH - alias=2 p=7
			p< DISCONNECT 0x82
			p< closed
			p> CONNECT v=5 id=p clean
			p< CONNACK 0x00
			p> PUBLISH t alias=65 p=7
			p< DISCONNECT 0x94
			p< closed`,
		"the packet size of the client": `
			a> CONNECT v=5 id=a clean max=60
			a< CONNACK 0x00
			a> SUBSCRIBE 1 t:qos=1
			a< SUBACK 1 0x01
			p> CONNECT v=5 id=p clean
			p< CONNACK 0x00
			p> PUBLISH t qos=1 id=1 big=100; PUBLISH t qos=1 id=2 p=x
			p< PUBACK 1
			p< PUBACK 2
			a< PUBLISH t qos=1 id=$id p=x`,
		"the packet size of the server": `
			option packet=2000
			p> CONNECT v=5 id=p clean
			p< CONNACK 0x00
			p> PUBLISH t qos=1 id=1 big=3000
			p< DISCONNECT 0x95
			p< closed
			p> CONNECT v=4 id=p clean
			p< CONNACK 0x00
			p> PUBLISH t qos=1 id=1 big=3000
			p< closed`,
		"properties are kept": `
			a> CONNECT v=5 id=a clean
			a< CONNACK 0x00
			a> SUBSCRIBE 1 t
			a< SUBACK 1 0x00
			p> CONNECT v=5 id=p clean
			p< CONNACK 0x00
			p> PUBLISH t p=x ct=text/plain rt=re/ply cd=42 fmt user=a:1 user=b:2 user=a:3 expiry=7
			a< PUBLISH t p=x expiry=7 ct=text/plain rt=re/ply cd=42 fmt user=a:1 user=b:2 user=a:3`,
		"expiry": `
			a> CONNECT v=5 id=a clean expiry=100
			a< CONNACK 0x00
			a> SUBSCRIBE 1 t:qos=1
			a< SUBACK 1 0x01
			a> DISCONNECT
			a< closed
			p> CONNECT v=5 id=p clean
			p< CONNACK 0x00
			p> PUBLISH t qos=1 id=1 p=1 expiry=5; PUBLISH t qos=1 id=2 p=2 expiry=50; PUBLISH t qos=1 id=3 p=3
			p< PUBACK 1
			p< PUBACK 2
			p< PUBACK 3
			advance 10s
			a> CONNECT v=5 id=a expiry=100
			a< CONNACK 0x00 present
			a< PUBLISH t qos=1 id=$two p=2 expiry=40
			a< PUBLISH t qos=1 id=$three p=3`,
		"the receive maximum of the client": `
			a> CONNECT v=5 id=a clean rm=2
			a< CONNACK 0x00
			a> SUBSCRIBE 1 t:qos=2
			a< SUBACK 1 0x02
			p> CONNECT v=5 id=p clean
			p< CONNACK 0x00
			p> PUBLISH t qos=1 id=1 p=1; PUBLISH t qos=2 id=2 p=2; PUBLISH t qos=1 id=3 p=3; PUBLISH t p=0
			p< PUBACK 1
			p< PUBREC 2
			p< PUBACK 3
			a<? PUBLISH t qos=1 id=$one p=1
			a<? PUBLISH t qos=2 id=$two p=2
			a<? PUBLISH t p=0
			a< nothing
			a> PUBREC $two
			a< PUBREL $two
			a< nothing
			a> PUBCOMP $two
			a< PUBLISH t qos=1 id=$three p=3
			a> PUBACK $three; PUBACK $one`,
		"the receive maximum of the server": `
			option receive=2
			p> CONNECT v=5 id=p clean
			p< CONNACK 0x00
			p> PUBLISH t qos=2 id=1; PUBLISH t qos=2 id=2; PUBLISH t qos=2 id=2 dup
			p< PUBREC 1 0x10
			p< PUBREC 2 0x10
			p< PUBREC 2
			p> PUBREL 1
			p< PUBCOMP 1
			p> PUBLISH t qos=2 id=3
			p< PUBREC 3 0x10
			p> PUBLISH t qos=1 id=4
			p< DISCONNECT 0x93
			p< closed`,
		"a slow subscriber without a stored session is closed": `
			option loose=3
			a> CONNECT v=5 id=a clean rm=1
			a< CONNACK 0x00
			a> SUBSCRIBE 1 t:qos=1
			a< SUBACK 1 0x01
			p> CONNECT v=5 id=p clean
			p< CONNACK 0x00
			p> PUBLISH t qos=1 id=1 p=1
			p< PUBACK 1
			a< PUBLISH t qos=1 id=$one p=1
			p> PUBLISH t qos=1 id=1 p=2; PUBLISH t qos=1 id=1 p=3; PUBLISH t qos=1 id=1 p=4; PUBLISH t qos=1 id=1 p=5
			p< PUBACK 1
			p< PUBACK 1
			p< PUBACK 1 0x10
			p< PUBACK 1 0x10
			a< DISCONNECT 0x97
			a< closed`,
		"reserved topics": `
			p> CONNECT v=5 id=p clean
			p< CONNACK 0x00
			p> PUBLISH $SYS/x qos=1 id=1; PUBLISH $SYS/x qos=2 id=2; PUBLISH $SYS/x
			p< PUBACK 1 0x90
			p< PUBREC 2 0x90
			p> PUBLISH $SYS/x qos=2 id=2
			p< PUBREC 2 0x90
			q> CONNECT id=q clean
			q< CONNACK 0x00
			q> PUBLISH $SYS/x qos=1 id=1
			q< closed`,
		"wildcards do not match topics with a dollar": `
			a> CONNECT id=a clean
			a< CONNACK 0x00
			a> SUBSCRIBE 1 # +/x $d/#
			a< SUBACK 1 0x00 0x00 0x00
			a> PUBLISH $d/x p=1
			a< PUBLISH $d/x p=1`,
	}.run(t)
}

func TestShared(t *testing.T) {
	scripts{
		"a group outlives its members": `
			a> CONNECT v=5 id=a clean
			a< CONNACK 0x00
			a> SUBSCRIBE 1 $share/g/t:qos=1 sub=4
			a< SUBACK 1 0x01
			p> CONNECT v=5 id=p clean
			p< CONNACK 0x00
			p> PUBLISH t qos=1 id=1 p=1
			p< PUBACK 1
			a< PUBLISH t qos=1 id=$one p=1 sub=4
			a drops
			advance 1h
			p> PUBLISH t qos=1 id=1 p=2
			p< PUBACK 1
			b> CONNECT v=5 id=b clean
			b< CONNACK 0x00
			b> SUBSCRIBE 1 $share/g/t:qos=1
			b< SUBACK 1 0x01
			b< PUBLISH t qos=1 id=$x dup p=1
			b< PUBLISH t qos=1 id=$y p=2
			b> PUBACK $x; PUBACK $y
			queue share/g/t 0
			b> UNSUBSCRIBE 2 $share/g/t
			b< UNSUBACK 2 0x00
			advance 2m
			queue share/g/t none`,
		"a group that nobody comes back to is gone after a day": `
			a> CONNECT v=5 id=a clean
			a< CONNACK 0x00
			a> SUBSCRIBE 1 $share/g/t:qos=1
			a< SUBACK 1 0x01
			a> PUBLISH t qos=1 id=1 p=1
			a< PUBACK 1
			a< PUBLISH t qos=1 id=$one p=1
			a drops
			restart
			advance 23h
			queue share/g/t 1
			advance 90m
			queue share/g/t none`,
		"a member that is offline is a member": `
			a> CONNECT v=5 id=a clean expiry=100000
			a< CONNACK 0x00
			a> SUBSCRIBE 1 $share/g/t:qos=1
			a< SUBACK 1 0x01
			a> DISCONNECT
			a< closed
			restart
			advance 10m
			queue share/g/t 0
			p> CONNECT v=5 id=p clean
			p< CONNACK 0x00
			p> PUBLISH t qos=1 id=1 p=1
			p< PUBACK 1
			a> CONNECT v=5 id=a expiry=100
			a< CONNACK 0x00 present
			a< PUBLISH t qos=1 id=$one p=1
			a> PUBACK $one; DISCONNECT
			a< closed
			advance 200s
			queue share/g/t none`,
		"QoS 2 stays with its member": `
			a> CONNECT v=5 id=a clean expiry=100
			a< CONNACK 0x00
			a> SUBSCRIBE 1 $share/g/t:qos=2 sub=9
			a< SUBACK 1 0x02
			p> CONNECT v=5 id=p clean
			p< CONNACK 0x00
			p> PUBLISH t qos=2 id=1 p=1
			p< PUBREC 1
			a< PUBLISH t qos=2 id=$one p=1 sub=9
			b> CONNECT v=5 id=b clean
			b< CONNACK 0x00
			b> SUBSCRIBE 1 $share/g/t:qos=2
			b< SUBACK 1 0x02
			a drops
			b< nothing
			crash
			a> CONNECT v=5 id=a expiry=100
			a< CONNACK 0x00 present
			a< PUBLISH t qos=2 id=$one dup p=1 sub=9
			a> PUBREC $one
			a< PUBREL $one
			a> PUBCOMP $one
			queue share/g/t 0`,
		"QoS 2 of a session that ends goes to nobody else": `
			a> CONNECT v=5 id=a clean
			a< CONNACK 0x00
			a> SUBSCRIBE 1 $share/g/t:qos=2
			a< SUBACK 1 0x02
			p> CONNECT v=5 id=p clean
			p< CONNACK 0x00
			p> PUBLISH t qos=2 id=1 p=1
			p< PUBREC 1
			a< PUBLISH t qos=2 id=$one p=1
			b> CONNECT v=5 id=b clean
			b< CONNACK 0x00
			b> SUBSCRIBE 1 $share/g/t:qos=2
			b< SUBACK 1 0x02
			a drops
			b< nothing
			queue share/g/t 0`,
		"a negative answer ends a delivery": `
			a> CONNECT v=5 id=a clean
			a< CONNACK 0x00
			a> SUBSCRIBE 1 $share/g/t:qos=2
			a< SUBACK 1 0x02
			a> PUBLISH t qos=1 id=1 p=1; PUBLISH t qos=2 id=2 p=2
			a< PUBACK 1
			a< PUBREC 2
			a< PUBLISH t qos=1 id=$one p=1
			a< PUBLISH t qos=2 id=$two p=2
			a> PUBACK $one 0x80; PUBREC $two 0x80
			queue share/g/t 0`,
		"no retained values, no no-local, no bad names": `
			a> CONNECT v=5 id=a clean
			a< CONNACK 0x00
			a> PUBLISH t retain p=1
			a> SUBSCRIBE 1 $share/g/t $share//t $share/g/ $share/g $share/+/t $share/g/a# $Share/g/t $queue/none $queue/mqtt/a
			a< SUBACK 1 0x00 0x8F 0x8F 0x8F 0x8F 0x8F 0x00 0x8F 0x8F
			a> SUBSCRIBE 2 $share/g/t:nl
			a< DISCONNECT 0x82
			a< closed`,
		"a queue of the core": `
			declare orders
			put orders one n=1
			a> CONNECT v=5 id=a clean
			a< CONNACK 0x00
			a> SUBSCRIBE 1 $queue/orders:qos=1
			a< SUBACK 1 0x01
			a< PUBLISH orders qos=1 id=$one p=one user=n:1
			a> PUBACK $one
			queue orders 0
			put orders two
			a< PUBLISH orders qos=1 id=$two p=two
			a drops
			take orders two`,
	}.run(t)
}
