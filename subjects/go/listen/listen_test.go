package listen

import (
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"time"
)

const anyPort = "127.0.0.1:0"

func TestGroupSharesOnePortAndItsConnections(t *testing.T) {
	const members, connections = 3, 120
	group, err := Group(anyPort, members)
	if err != nil {
		t.Fatal(err)
	}
	defer Close(group)

	accepted := make([]atomic.Int32, members)
	for i, listener := range group {
		if listener.Addr().String() != group[0].Addr().String() {
			t.Fatalf("member %d listens on %s, not on %s", i, listener.Addr(), group[0].Addr())
		}
		go func() {
			for {
				connection, err := listener.Accept()
				if err != nil {
					return
				}
				accepted[i].Add(1)
				connection.Close()
			}
		}()
	}
	for range connections {
		connection, err := net.Dial("tcp", group[0].Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		connection.SetReadDeadline(time.Now().Add(10 * time.Second))
		connection.Read(make([]byte, 1)) // returns once it was accepted and closed
		connection.Close()
	}
	total := int32(0)
	for i := range accepted {
		if accepted[i].Load() == 0 {
			t.Errorf("member %d got none of %d connections", i, connections)
		}
		total += accepted[i].Load()
	}
	if total != connections {
		t.Errorf("%d connections were accepted, want %d", total, connections)
	}
}

func TestAPortInUseIsRefused(t *testing.T) {
	one, err := One(anyPort)
	if err != nil {
		t.Fatal(err)
	}
	defer one.Close()
	group, err := Group(anyPort, 2)
	if err != nil {
		t.Fatal(err)
	}
	defer Close(group)

	for holder, address := range map[string]string{
		"a single listener": one.Addr().String(),
		"a group":           group[0].Addr().String(),
	} {
		_, errOne := One(address)
		_, errGroup := Group(address, 2)
		for asker, err := range map[string]error{"One": errOne, "Group": errGroup} {
			var refused *Error
			if !errors.As(err, &refused) || !refused.InUse() || refused.Address != address {
				t.Errorf("%s on a port held by %s: %v, want an Error that names it as in use", asker, holder, err)
			}
		}
	}
}

func TestAnImpossibleAddressIsNotInUse(t *testing.T) {
	_, err := One("192.0.2.1:0") // TEST-NET-1 belongs to no interface
	var refused *Error
	if !errors.As(err, &refused) || refused.InUse() {
		t.Errorf("got %v, want an Error that is not about a port in use", err)
	}
}
