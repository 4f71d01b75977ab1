package store

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func key(name string) Key { return Key{Name: name, Coding: "gzip"} }

func of(bytes int) func() ([]byte, error) {
	return func() ([]byte, error) { return make([]byte, bytes), nil }
}

func TestABodyIsMadeOnceHoweverManyAsk(t *testing.T) {
	store := New(1000)
	var made atomic.Int32
	var all sync.WaitGroup
	for range 50 {
		all.Go(func() {
			body, _, err := store.Get(key("a"), func() ([]byte, error) {
				made.Add(1)
				time.Sleep(10 * time.Millisecond)
				return []byte("abc"), nil
			})
			if string(body) != "abc" || err != nil {
				t.Error(body, err)
			}
		})
	}
	all.Wait()
	if made.Load() != 1 {
		t.Errorf("made %d times", made.Load())
	}
	if _, was, _ := store.Get(key("a"), of(0)); !was {
		t.Error("it is not kept")
	}
}

func TestWhatWasNotAskedForLongestGoes(t *testing.T) {
	store := New(100)
	for _, name := range []string{"a", "b", "a", "c"} {
		_, _, _ = store.Get(key(name), of(40))
	}
	if store.Bytes() != 80 {
		t.Errorf("%d bytes are kept", store.Bytes())
	}
	if _, was, _ := store.Get(key("a"), of(40)); !was {
		t.Error("a was asked for again, and is gone")
	}
	if _, was, _ := store.Get(key("b"), of(40)); was {
		t.Error("b was not, and is kept")
	}
}

func TestWhatIsTooLargeOrFailedIsNotKept(t *testing.T) {
	store := New(100)
	_, _, _ = store.Get(key("large"), of(101))
	failed := errors.New("no")
	if _, _, err := store.Get(key("bad"), func() ([]byte, error) { return nil, failed }); !errors.Is(err, failed) {
		t.Error(err)
	}
	for _, name := range []string{"large", "bad"} {
		if _, was, _ := store.Get(key(name), of(1)); was {
			t.Errorf("%s is kept", name)
		}
	}
	changed := key("large")
	changed.Changed = time.Unix(1, 0)
	if _, was, _ := store.Get(changed, of(1)); was {
		t.Error("a file that was changed is the same")
	}
	if _, was, _ := New(0).Get(key("a"), of(1)); was {
		t.Error("nothing is kept by a store of no bytes")
	}
}

func TestWhoPanicsLeavesNobodyWaiting(t *testing.T) {
	store := New(100)
	func() {
		defer func() { _ = recover() }()
		_, _, _ = store.Get(key("a"), func() ([]byte, error) { panic("no") })
	}()
	done := make(chan struct{})
	go func() {
		_, _, _ = store.Get(key("a"), of(1))
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(time.Second):
		t.Error("the next one waits")
	}
}
