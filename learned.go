package hookonce

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hookonce/hookonce/driver"
)

// learnInterval is the time between two looks for secrets that other processes learned.
const learnInterval = time.Second

// learnedSecrets are the secrets that providers handed over, for all sources that can learn one.
// They outlive reloads.
type learnedSecrets struct {
	store driver.Store

	mu    sync.Mutex
	lists map[string]*learnedList // by source
}

// learnedList holds the learned secrets of one source, the latest first.
type learnedList struct {
	name    string
	store   driver.Store
	current atomic.Pointer[[]string] // nil until the first read

	mu      sync.Mutex
	begun   int // number of reads
	applied int // number of the read that current is from
}

func newLearnedSecrets(store driver.Store) *learnedSecrets {
	return &learnedSecrets{store: store, lists: make(map[string]*learnedList)}
}

func (l *learnedSecrets) of(source string) *learnedList {
	l.mu.Lock()
	defer l.mu.Unlock()
	list := l.lists[source]
	if list == nil {
		list = &learnedList{name: source, store: l.store}
		l.lists[source] = list
	}
	return list
}

// refresh reads the secrets that any process learned.
func (l *learnedSecrets) refresh(ctx context.Context) error {
	l.mu.Lock()
	names := make([]string, 0, len(l.lists))
	reads := make([]int, 0, len(l.lists))
	for name, list := range l.lists {
		names, reads = append(names, name), append(reads, list.begin())
	}
	l.mu.Unlock()
	if len(names) == 0 {
		return nil
	}
	all, err := l.store.LearnedSecrets(ctx, names)
	if err != nil {
		return err
	}
	for i := range all {
		l.of(all[i].Source).set(reads[i], &all[i])
	}
	return nil
}

// begin numbers a read that begins.
func (l *learnedList) begin() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.begun++
	return l.begun
}

// set keeps the result of a read, unless a later read has ended: that one may have seen a newer
// secret.
func (l *learnedList) set(read int, s *driver.SourceSecrets) {
	secrets := make([]string, 0, len(s.Secrets))
	for i := range s.Secrets {
		secrets = append(secrets, s.Secrets[i].Secret)
	}
	slices.Reverse(secrets)
	l.mu.Lock()
	defer l.mu.Unlock()
	if read > l.applied {
		l.applied = read
		l.current.Store(&secrets)
	}
}

// read reads the source's secrets.
func (l *learnedList) read(ctx context.Context) (*driver.SourceSecrets, error) {
	read := l.begin()
	all, err := l.store.LearnedSecrets(ctx, []string{l.name})
	if err != nil {
		return nil, err
	}
	l.set(read, &all[0])
	return &all[0], nil
}

// known returns the source's secrets, and reads them the first time.
func (l *learnedList) known(ctx context.Context) ([]string, error) {
	if learned := l.current.Load(); learned != nil {
		return *learned, nil
	}
	if _, err := l.read(ctx); err != nil {
		return nil, fmt.Errorf("reading learned secrets: %w", err)
	}
	return *l.current.Load(), nil
}

// withLearned are the secrets of the settings and the learned ones.
type withLearned struct {
	own  Secrets // nil for none
	list *learnedList
}

// Secrets implements Secrets.
func (s *withLearned) Secrets(ctx context.Context, r *http.Request) ([]string, error) {
	learned, err := s.list.known(ctx)
	if err != nil || s.own == nil {
		return learned, err
	}
	own, err := s.own.Secrets(ctx, r)
	if err != nil {
		return nil, err
	}
	return append(slices.Clip(own), learned...), nil
}

// knows reports whether a secret was learned, in constant time.
func knows(state *driver.SourceSecrets, secret string) bool {
	wanted, match := sha256.Sum256([]byte(secret)), 0
	for i := range state.Secrets {
		sum := sha256.Sum256([]byte(state.Secrets[i].Secret))
		match |= subtle.ConstantTimeCompare(sum[:], wanted[:])
	}
	return match == 1
}

// addTo adds the learned secrets to src, if it can learn.
func (l *learnedSecrets) addTo(src *source) {
	if src.canLearn() {
		src.Secrets = &withLearned{own: src.Secrets, list: l.of(src.Name)}
	}
}
