package frame

import (
	"bytes"
	"testing"
)

func TestFramesByHand(t *testing.T) {
	if got := AppendFrame([]byte("before"), TypeBody, 0x0102, []byte("xyz")); string(got) != "before\x03\x01\x02\x00\x00\x00\x03xyz\xce" {
		t.Errorf("%q", got)
	}
	if got := AppendHeartbeat(nil); string(got) != "\x08\x00\x00\x00\x00\x00\x00\xce" {
		t.Errorf("%q", got)
	}
	got, err := AppendMethodFrame(nil, 1, &BasicAck{DeliveryTag: 1})
	if err != nil || string(got) != "\x01\x00\x01\x00\x00\x00\x0d\x00\x3c\x00\x50\x00\x00\x00\x00\x00\x00\x00\x01\x00\xce" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestCloneLasts(t *testing.T) {
	for _, raw := range [][]byte{AppendFrame(nil, TypeBody, 7, []byte("xyz")), AppendProtocolHeader(nil)} {
		r := NewReader(4096)
		fed := bytes.Clone(raw)
		r.Feed(fed)
		f, ok, err := r.Next()
		if !ok || err != nil {
			t.Fatal(ok, err)
		}
		want := string(f.Payload)
		c := f.Clone()
		clear(fed)
		if !bytes.Equal(c.Raw, raw) || string(c.Payload) != want || c.Type != f.Type || c.Channel != f.Channel {
			t.Errorf("%v: %q", c, c.Raw)
		}
	}
}

func TestStrings(t *testing.T) {
	for want, f := range map[string]Frame{
		"body frame on channel 7, 11 bytes":     cut(t, AppendFrame(nil, TypeBody, 7, []byte("xyz")))[0],
		"heartbeat frame on channel 0, 8 bytes": cut(t, AppendHeartbeat(nil))[0],
		"protocol header 0-9-1":                 cut(t, AppendProtocolHeader(nil))[0],
		"protocol header of no known version":   {Type: TypeProtocol},
		"type 4 frame on channel 0, 0 bytes":    {Type: 4},
	} {
		if got := f.String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if TypeMethod.String() != "method" || TypeHeader.String() != "header" || TypeProtocol.String() != "protocol" {
		t.Error("types")
	}
}
