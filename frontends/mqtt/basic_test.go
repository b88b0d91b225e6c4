package mqtt

import "testing"

func TestBasics(t *testing.T) {
	scripts{
		"no-local": `
			a> CONNECT v=5 id=a clean
			a< CONNACK 0x00
			b> CONNECT v=5 id=b clean
			b< CONNACK 0x00
			a> SUBSCRIBE 1 t:qos=2:nl
			a< SUBACK 1 0x02
			b> SUBSCRIBE 1 t:qos=2:nl
			b< SUBACK 1 0x02
			a> PUBLISH t qos=1 id=1 p=x
			a< PUBACK 1
			a< nothing
			b< PUBLISH t qos=1 id=$id p=x
			b> PUBACK $id`,
		"versions": `
			a> CONNECT v=3 id=a clean
			a< CONNACK 0x00
			b> CONNECT v=4 id=b clean
			b< CONNACK 0x00
			c> CONNECT v=5 id=c clean
			c< CONNACK 0x00
			a> SUBSCRIBE 1 t:qos=2
			a< SUBACK 1 0x02
			b> SUBSCRIBE 1 t/#:qos=1
			b< SUBACK 1 0x01
			c> SUBSCRIBE 1 +
			c< SUBACK 1 0x00
			c> PUBLISH t qos=2 id=7 p=x
			c< PUBREC 7
			c< PUBLISH t p=x
			c> PUBREL 7
			c< PUBCOMP 7
			a< PUBLISH t qos=2 id=$a p=x
			a> PUBREC $a
			a< PUBREL $a
			a> PUBCOMP $a
			b< PUBLISH t qos=1 id=$b p=x
			b> PUBACK $b; PINGREQ
			b< PINGRESP
			b> DISCONNECT
			b< closed`,
		"resume": `
			a> CONNECT id=a
			a< CONNACK 0x00
			a> SUBSCRIBE 1 t:qos=2
			a< SUBACK 1 0x02
			p> CONNECT v=5 id=p clean
			p< CONNACK 0x00
			p> PUBLISH t qos=1 id=1 p=1
			p< PUBACK 1
			p> PUBLISH t qos=2 id=2 p=2; PUBREL 2
			p< PUBREC 2
			p< PUBCOMP 2
			a< PUBLISH t qos=1 id=$one p=1
			a< PUBLISH t qos=2 id=$two p=2
			a drops
			p> PUBLISH t qos=1 id=3 p=3
			p< PUBACK 3
			a> CONNECT id=a
			a< CONNACK 0x00 present
			a< PUBLISH t qos=1 id=$one dup p=1
			a< PUBLISH t qos=2 id=$two dup p=2
			a< PUBLISH t qos=1 id=$three p=3
			a> PUBACK $one; PUBREC $two
			a< PUBREL $two
			crash
			a> CONNECT id=a
			a< CONNACK 0x00 present
			a< PUBREL $two
			a< PUBLISH t qos=1 id=$three dup p=3
			a> PUBCOMP $two; PUBACK $three
			a> CONNECT id=a
			a< closed`,
	}.run(t)
}
