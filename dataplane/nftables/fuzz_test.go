package nftables

import (
	"encoding/binary"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/plumbline/plumbline/dataplane/dptest"
	"github.com/plumbline/plumbline/dataplane/plan"
)

// FuzzElements: what a plan's elements are written as reads back as the plan.
func FuzzElements(f *testing.F) {
	dptest.FuzzPlans(f, func(t *testing.T, p *plan.Plan) {
		o, b, fam := newOps(), &batch{}, newBoth()
		o.replace(nil, planElements(p))
		o.write(fam, b)
		if b.err != nil {
			t.Fatal(b.err)
		}
		ids := map[string]setID{}
		for id := range setCount {
			ids[fam[0].sets[id].name] = id
		}
		var got []Element
		for _, m := range b.msgs {
			fam := fam.of(m.Data[0] == unix.NFPROTO_IPV6)
			body := string(m.Data[4:])
			id, known := ids[name(attr(body, unix.NFTA_SET_ELEM_LIST_SET))]
			if !known || len(m.Data) > 1<<16 {
				t.Fatalf("a message of %d bytes to set %q", len(m.Data), name(attr(body, unix.NFTA_SET_ELEM_LIST_SET)))
			}
			attrs(attr(body, unix.NFTA_SET_ELEM_LIST_ELEMENTS), func(_ uint16, item string) {
				got = append(got, parseElement(fam, id, item))
			})
		}
		if diff := cmp.Diff(Render(p), text(got)); diff != "" {
			t.Errorf("-meant +read:\n%s", diff)
		}
	})
}

// FuzzAnswers: whatever a socket reads, each message that is taken lies within it, and what is
// made of it is an element or nothing.
func FuzzAnswers(f *testing.F) {
	message := func(typ uint16, body []byte) []byte {
		b := binary.NativeEndian.AppendUint32(nil, uint32(messageHeader+len(body)))
		b = binary.NativeEndian.AppendUint16(binary.NativeEndian.AppendUint16(b, typ), 0)
		b = binary.NativeEndian.AppendUint32(b, 7)
		return append(binary.NativeEndian.AppendUint32(b, 0), body...)
	}
	var elem buffer
	at := elem.nest(unix.NFTA_SET_ELEM_LIST_ELEMENTS)
	elem.element(newBoth()[0].sets[setServices], Element{elementID{key: "\x0a\x60\x00\x01\x06\x00\x00\x00\x00\x50\x00\x00"}, "\x00\x01\x00\x02"})
	elem.end(at)
	part := message(unix.NFNL_SUBSYS_NFTABLES<<8|unix.NFT_MSG_NEWSETELEM, append([]byte{2, 0, 0, 0}, elem.bytes...))
	f.Add(part)
	f.Add(append(part, message(unix.NLMSG_DONE, []byte{0, 0, 0, 0})...))
	f.Add(message(unix.NLMSG_ERROR, []byte{0xff, 0xff, 0xff, 0xff}))
	f.Add(message(unix.NLMSG_ERROR, []byte{1}))
	f.Add(part[:len(part)-3])
	f.Fuzz(func(t *testing.T, b []byte) {
		interrupted, read := false, 0
		done, err := answers(string(b), 7, &interrupted, func(_ uint16, body string) {
			read += messageHeader + 4 + len(body)
			for id := range setCount {
				for _, f := range newBoth() {
					attrs(attr(body, unix.NFTA_SET_ELEM_LIST_ELEMENTS), func(_ uint16, item string) {
						e := parseElement(f, id, item)
						if len(e.id.key)+len(e.val) > len(item) {
							t.Errorf("an element of %d bytes from %d", len(e.id.key)+len(e.val), len(item))
						}
						if at, ok := parseEndpoint(e.val); ok && !at.Addr.IsValid() {
							t.Errorf("an endpoint without an address from %q", e.val)
						}
					})
				}
			}
			parseHook(name(attr(body, unix.NFTA_CHAIN_TYPE)), attr(body, unix.NFTA_CHAIN_HOOK))
		})
		if read > len(b) {
			t.Errorf("%d bytes were read from %d", read, len(b))
		}
		if err != nil && err.Error() == "" || done && len(b) < messageHeader+4 {
			t.Errorf("done %t, %v after %d bytes", done, err, len(b))
		}
	})
}
