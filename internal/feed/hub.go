package feed

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/hookonce/hookonce/driver"
)

const (
	// MaxClients is how many clients a Hub takes.
	MaxClients = 100
	// pollEvery is how often the store is read while there are clients.
	pollEvery = 500 * time.Millisecond
	// watchFor is how long the processes write rows after the last client has left, so that a client
	// can resume.
	watchFor   = 2 * time.Minute
	watchAgain = watchFor / 4
	// joinTimeout bounds the wait for the first read of the store.
	joinTimeout = 5 * time.Second
	// joinSlack is how long a first viewer's request and the first watch may take together, unseen here.
	joinSlack = 250 * time.Millisecond
)

// Reader is the part of driver.Store that a Hub reads.
type Reader interface {
	WatchFeed(ctx context.Context, p *driver.WatchFeedParams) (int64, error)
	ReadFeed(ctx context.Context, p *driver.ReadFeedParams) (*driver.FeedPage, error)
}

// ErrFull is the error of Hub.Join if there are MaxClients already.
var ErrFull = errors.New("the live feed has too many clients")

var errNotRead = fmt.Errorf("%w: the live feed was not read in time", driver.ErrUnavailable)

// Entry is a row in a Hub. Clients share it.
type Entry struct {
	Seq int64
	Row
	Data []byte // the row as its clients get it
}

// Hub reads the feed for all clients of a process, while there are any. Its methods may be called
// concurrently.
type Hub struct {
	store   Reader
	log     *slog.Logger
	encode  func(*Row) []byte
	clients func(n int)
	// Began, unless nil, is called when the store knows of a first viewer and its time. Set it before the first Join.
	Began func(came time.Time)

	mu  sync.Mutex
	n   int
	now *session // of the present clients; nil without any
}

// NewHub returns a Hub that makes Entry.Data by encode. clients, unless nil, is called with the
// number of clients when it changes, and must return at once.
func NewHub(store Reader, log *slog.Logger, encode func(*Row) []byte, clients func(n int)) *Hub {
	if clients == nil {
		clients = func(int) {}
	}
	return &Hub{store: store, log: log, encode: encode, clients: clients}
}

// Client is one client of a Hub. It holds a place until Leave.
type Client struct {
	hub   *Hub
	from  *session
	start int64
}

// Join returns a new client once the feed was read. From Start, it sees all that happens after that in all
// processes: each asks once a second whether somebody looks, and keeps what happened since. The error is ErrFull if there are MaxClients already, or matches driver.ErrUnavailable if the store does not
// answer in time.
func (h *Hub) Join(ctx context.Context) (*Client, error) {
	c, err := h.enter()
	if err != nil {
		return nil, err
	}
	timeout := time.NewTimer(joinTimeout)
	defer timeout.Stop()
	select {
	case <-c.from.ready:
		if c.start < 0 {
			c.start = c.from.first
		}
		return c, nil
	case <-timeout.C:
		err = errNotRead
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	c.Leave()
	return nil, err
}

func (h *Hub) enter() (*Client, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.n >= MaxClients {
		return nil, ErrFull
	}
	if h.n++; h.now == nil {
		h.now = newSession(h)
	}
	h.clients(h.n)
	c := &Client{hub: h, from: h.now, start: -1}
	select {
	case <-c.from.ready:
		c.start = c.Last()
	default: // Join waits, and the client sees what happens meanwhile
	}
	return c, nil
}

// Start returns the number of the newest row at the call of Join.
func (c *Client) Start() int64 { return c.start }

// Leave gives the place back. The last client stops the reading.
func (c *Client) Leave() {
	h := c.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.n--; h.n == 0 {
		h.now.stop()
		h.now = nil
	}
	h.clients(h.n)
}

// Last returns the number of the newest row.
func (c *Client) Last() int64 {
	c.from.mu.Lock()
	defer c.from.mu.Unlock()
	return c.from.last
}

// After returns up to limit entries after the number seq, and a channel that is closed when there may
// be more. It returns false if entries after seq are no longer there: the client must start again.
func (c *Client) After(seq int64, limit int) (entries []Entry, more <-chan struct{}, ok bool) {
	s := c.from
	s.mu.Lock()
	defer s.mu.Unlock()
	if seq < s.floor || seq > s.last {
		return nil, nil, false
	}
	at := s.place(seq)
	end := min(at+limit, len(s.entries))
	return s.entries[at:end:end], s.changed, true // entries never change, so clients can share them
}

// session reads the feed from the first client to the last one.
type session struct {
	hub     *Hub
	came    time.Time // the first client
	stop    context.CancelFunc
	ready   chan struct{} // closed once the feed was read
	isReady sync.Once

	mu      sync.Mutex
	entries []Entry       // all of the store after floor, oldest first
	floor   int64         // see driver.FeedPage
	last    int64         // the number of the newest row
	changed chan struct{} // closed when there are new entries or the old ones are gone, and then replaced

	// Of the goroutine that reads.
	watchAt time.Time // when to watch again
	failed  bool
	read    bool  // the feed was read once
	first   int64 // the number of its newest row then; for others once ready is closed
}

func newSession(h *Hub) *session {
	ctx, stop := context.WithCancel(context.Background())
	s := &session{hub: h, came: time.Now(), stop: stop, ready: make(chan struct{}), changed: make(chan struct{})}
	go s.run(ctx)
	return s
}

func (s *session) run(ctx context.Context) {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		s.note(ctx, s.poll(ctx))
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// note logs when the reading begins to fail, and when it works again.
func (s *session) note(ctx context.Context, err error) {
	failed := err != nil
	if failed == s.failed || ctx.Err() != nil {
		return
	}
	if s.failed = failed; failed {
		s.hub.log.Warn("reading the live feed failed; retrying", slog.Any("error", err))
	} else {
		s.hub.log.Info("reading the live feed works again")
	}
}

// poll watches, if it is time to, and takes in the new rows.
func (s *session) poll(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	page, err := s.hub.store.ReadFeed(ctx, &driver.ReadFeedParams{After: s.last})
	if err != nil {
		return err
	}
	first := page.Last
	if now := time.Now(); !page.Watched || !now.Before(s.watchAt) {
		length := watchFor
		if !page.Watched { // its end tells the other processes when the viewer came
			length -= min(now.Sub(s.came)+joinSlack, joinTimeout)
		}
		last, err := s.hub.store.WatchFeed(ctx, &driver.WatchFeedParams{For: length})
		if err != nil {
			return err
		}
		s.watchAt = now.Add(watchAgain)
		if !page.Watched { // the first viewer, or the database lost the watch
			s.begin(last)
			if s.hub.Began != nil {
				s.hub.Began(s.came)
			}
			if page, err = s.hub.store.ReadFeed(ctx, &driver.ReadFeedParams{After: s.last}); err != nil {
				return err
			}
		}
	}
	s.begin(first)
	switch {
	case s.last > page.Last: // another feed than before: the next read begins at its start
		s.reset(0)
		return nil
	case s.last < page.Floor: // rows are missing
		s.reset(page.Floor)
	}
	s.take(page)
	return nil
}

// begin notes the number of the newest row at the first read: the clients that wait for it begin there.
func (s *session) begin(last int64) {
	if !s.read {
		s.read, s.first = true, last
	}
}

// reset forgets all entries and goes on after floor.
func (s *session) reset(floor int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries, s.floor, s.last = nil, floor, floor
	s.wake()
}

// take takes in a page that begins after s.last.
func (s *session) take(page *driver.FeedPage) {
	added := make([]Entry, len(page.Rows))
	for i := range page.Rows {
		row := restore(&page.Rows[i])
		added[i] = Entry{Seq: page.Rows[i].Seq, Row: row, Data: s.hub.encode(&row)}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.entries = append(s.entries[s.place(page.Floor):], added...)
	s.floor = page.Floor
	if n := len(added); n > 0 {
		s.last = added[n-1].Seq
		s.wake()
	}
	s.isReady.Do(func() { close(s.ready) })
}

// place returns the index of the first entry after seq. The caller holds the lock.
func (s *session) place(seq int64) int {
	at, _ := slices.BinarySearchFunc(s.entries, seq+1, func(e Entry, seq int64) int { return cmp.Compare(e.Seq, seq) })
	return at
}

// wake wakes the waiting clients. The caller holds the lock.
func (s *session) wake() {
	close(s.changed)
	s.changed = make(chan struct{})
}
