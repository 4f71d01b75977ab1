// Package store keeps compressed bodies in memory, within a bound: each is
// made once by whoever asks first, and those that nobody asked for longest go.
package store

import (
	"container/list"
	"sync"
	"time"
)

// Key is a body: of a file as it was, by a coding.
type Key struct {
	Name    string
	Coding  string
	Changed time.Time
	Size    int
}

// Store is a bounded memory. Its zero value keeps nothing.
type Store struct {
	lock    sync.Mutex
	bytes   int
	limit   int
	entries map[Key]*entry
	recent  *list.List // of Keys that are made, the latest first
}

// entry is a body that is being made, or was.
type entry struct {
	made chan struct{} // closed when body and err stand
	body []byte
	err  error
	at   *list.Element // nil while it is being made
}

// New makes a store of so many bytes.
func New(limit int) *Store {
	return &Store{limit: limit, entries: map[Key]*entry{}, recent: list.New()}
}

// Get gives a body, which is made if it is not there, and whether it was. Who
// asks while it is being made waits for it. One that is larger than the store
// is made each time.
func (s *Store) Get(key Key, make func() ([]byte, error)) (body []byte, was bool, err error) {
	s.lock.Lock()
	if known, ok := s.entries[key]; ok {
		if known.at != nil {
			s.recent.MoveToFront(known.at)
		}
		s.lock.Unlock()
		<-known.made
		return known.body, true, known.err
	}
	if s.limit <= 0 {
		s.lock.Unlock()
		body, err = make()
		return body, false, err
	}
	fresh := &entry{made: newGate()}
	s.entries[key] = fresh
	s.lock.Unlock()
	defer func() {
		s.lock.Lock()
		s.settle(key, fresh)
		s.lock.Unlock()
		close(fresh.made)
	}()
	fresh.body, fresh.err = make()
	return fresh.body, false, fresh.err
}

func newGate() chan struct{} { return make(chan struct{}) }

// settle keeps what was made, or forgets it, and makes room.
func (s *Store) settle(key Key, made *entry) {
	if made.err != nil || made.body == nil || len(made.body) > s.limit {
		delete(s.entries, key)
		return
	}
	made.at = s.recent.PushFront(key)
	s.bytes += len(made.body)
	for s.bytes > s.limit {
		oldest := s.recent.Remove(s.recent.Back()).(Key)
		s.bytes -= len(s.entries[oldest].body)
		delete(s.entries, oldest)
	}
}

// Bytes says how much is kept.
func (s *Store) Bytes() int {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.bytes
}
