package instance

import (
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/plumbline/plumbline/fixtures/need"
	"github.com/plumbline/plumbline/fixtures/netns"
)

// A link that goes between being found and being removed is gone, which is what was wanted.
func TestRemoveLinkThatGoes(t *testing.T) {
	need.Root(t)
	if err := netns.Fresh(func() error {
		other, err := netlink.NewHandle()
		if err != nil {
			return err
		}
		defer other.Close()
		for range 100 {
			link := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "lb-port"}, PeerName: inside}
			if err := netlink.LinkAdd(link); err != nil {
				return err
			}
			gone := make(chan struct{})
			go func() { // its failure is that removeLink was first
				_ = other.LinkDel(link)
				close(gone)
			}()
			if err := removeLink("lb-port"); err != nil {
				return err
			}
			<-gone
		}
		return removeLink("lb-port")
	}); err != nil {
		t.Error(err)
	}
}
