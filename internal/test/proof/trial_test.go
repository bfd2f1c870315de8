package proof

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hookonce/hookonce/internal/test/eventually"
	"github.com/hookonce/hookonce/internal/test/group"
)

const (
	senders = 32
	// senderTimeout is how long a sender waits for an answer. It is longer than ack_timeout.
	senderTimeout = 5 * time.Second
	senderPause   = 10 * time.Millisecond
	// patience is the longest time without progress. It is longer than any timeout, and than an
	// event that ends its process in every attempt needs.
	patience = 3 * time.Minute
)

// trial is a run of many events through processes that are killed meanwhile.
type trial struct {
	t      testing.TB
	db     *database
	folder string // for the records and logs
	seed   uint64
	random *rand.Rand // for the test itself; each sender has its own
	client *http.Client
	places []*place
	// receivers are the places whose processes listen.
	receivers []*place
	events    []*event
	// mayDieAgain tells whether an event that ends its process does so in every attempt, and is dead in the end.
	mayDieAgain bool

	killOne func() // ends a process, at a random place unless a test has another way

	next atomic.Int64 // index of the next event to send
	acks atomic.Int64

	mu           sync.Mutex
	acknowledged []*event
	figures      figures
}

// newTrial prepares a trial. If events is nil, the trial plans them.
func newTrial(t testing.TB, db *database, events []*event) *trial {
	t.Helper()
	seed := seedOf(t)
	t.Logf("%s=%d repeats the random choices of this trial", seedVariable, seed)
	transport := &http.Transport{MaxIdleConnsPerHost: 2 * senders}
	tr := &trial{
		t: t, db: db, folder: t.TempDir(), seed: seed, random: rand.New(rand.NewPCG(seed, 0)),
		client: &http.Client{Transport: transport, Timeout: senderTimeout},
		events: events, mayDieAgain: true,
	}
	tr.killOne = func() { tr.places[tr.random.IntN(len(tr.places))].kill() }
	if events == nil {
		count := fewEvents
		if group.Long() {
			count = longEvents
		}
		if n := pageEvents(t); n > 0 {
			count = n
		}
		tr.events = planEvents(tr.random, count)
	}
	for _, name := range []string{runsFile, waitingFile, passedFile, deathsFile, sentFile} {
		if err := os.WriteFile(filepath.Join(tr.folder, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		tr.stop()
		if t.Failed() {
			for _, p := range tr.places {
				if len(p.logs) > 0 {
					t.Logf("the last log of %s:\n%s", p.name, tail(p.logs[len(p.logs)-1]))
				}
			}
		}
	})
	return tr
}

// addPlace adds a place for worker processes.
func (tr *trial) addPlace(name string, s settings) *place {
	tr.t.Helper()
	s.Variant, s.Database, s.Folder = tr.db.variant, tr.db.address, tr.folder
	p := &place{name: name, folder: tr.folder, listens: true, command: workerCommand(tr.t, s)}
	tr.places, tr.receivers = append(tr.places, p), append(tr.receivers, p)
	return p
}

// run sends all events while processes are killed, waits until all work is finished, and stops the
// processes.
func (tr *trial) run() {
	t := tr.t
	t.Helper()
	began := time.Now()
	for _, p := range tr.places {
		p.keep(t)
	}
	var sending sync.WaitGroup
	for n := range senders {
		sending.Go(func() { tr.send(rand.New(rand.NewPCG(tr.seed, uint64(n)+1))) })
	}
	sent := make(chan struct{})
	go func() {
		sending.Wait()
		close(sent)
	}()
	tr.killWhileSending(sent)
	tr.figures.sending = time.Since(began)
	tr.killWhileDraining()
	tr.waitDrained()
	tr.figures.draining = time.Since(began) - tr.figures.sending
	tr.stop()
}

// killWhileSending kills a process about every 250 deliveries, or 100 in a short trial, at a random moment.
func (tr *trial) killWhileSending(sent <-chan struct{}) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	most := int64(200)
	if group.Long() {
		most = 500
	}
	due := int64(0)
	for {
		select {
		case <-sent:
			return
		case <-tr.t.Context().Done():
			return
		case <-tick.C:
		}
		if tr.acks.Load() < due {
			continue
		}
		due = tr.acks.Load() + 1 + tr.random.Int64N(most)
		tr.pause(20 * time.Millisecond)
		if tr.cutNone() {
			tr.receivers[tr.random.IntN(len(tr.receivers))].kill()
		} else {
			tr.killOne()
		}
	}
}

// cutNone reports whether no kill has cut off a delivery so far. A short trial could end without one.
func (tr *trial) cutNone() bool {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.figures.cut == 0
}

// killWhileDraining kills a process a few times a second while work is unfinished, but only a
// limited number of times.
func (tr *trial) killWhileDraining() {
	for range 5 + len(tr.events)/1000 {
		if tr.unfinished() == 0 {
			return
		}
		tr.pause(600 * time.Millisecond)
		tr.killOne()
	}
}

// pause waits for a random time.
func (tr *trial) pause(most time.Duration) {
	<-time.After(time.Duration(tr.random.Int64N(int64(most))))
}

// unfinished returns the number of events and messages that are not finished.
func (tr *trial) unfinished() int {
	return tr.db.number(tr.t, `SELECT (SELECT count(*) FROM `+tr.db.table("event_state")+` WHERE state IN (0, 1)) +
		(SELECT count(*) FROM `+tr.db.table("message")+` WHERE state IN (0, 1))`)
}

// waitDrained waits until all work is finished. It fails if the unfinished work does not shrink for
// patience.
func (tr *trial) waitDrained() {
	t := tr.t
	t.Helper()
	least, since := -1, time.Now()
	for {
		open := tr.unfinished()
		if open == 0 {
			return
		}
		if least < 0 || open < least {
			least, since = open, time.Now()
		}
		if time.Since(since) > patience {
			t.Fatalf("%d events and messages are unfinished, and never fewer than %d in %s:\n%s",
				open, least, patience, tr.describeOpen())
		}
		select {
		case <-t.Context().Done():
			t.Fatal("the test has ended")
		case <-time.After(100 * time.Millisecond):
		}
		for _, p := range tr.places {
			if p.lost.Load() {
				t.Fatalf("%d events and messages are unfinished, and %s has no process any more", open, p.name)
			}
		}
	}
}

// describeOpen returns some of the unfinished events.
func (tr *trial) describeOpen() string {
	var lines []string
	var id, state, lastError string
	var attempts int
	tr.db.rows(tr.t, `SELECT event_id, state, attempts, last_error FROM `+tr.db.table("events")+
		` WHERE state IN ('pending', 'running') LIMIT 20`, []any{&id, &state, &attempts, &lastError}, func() {
		lines = append(lines, fmt.Sprintf("%s %s, attempts %d, %q", id, state, attempts, lastError))
	})
	return strings.Join(lines, "\n")
}

// size returns the size of a record in bytes.
func (tr *trial) size(name string) int64 {
	info, err := os.Stat(filepath.Join(tr.folder, name))
	if err != nil {
		tr.t.Fatal(err)
	}
	return info.Size()
}

// stop stops all processes.
func (tr *trial) stop() {
	var all sync.WaitGroup
	for _, p := range tr.places {
		all.Go(func() { p.stop(tr.t) })
	}
	all.Wait()
}

// send is one sender: it sends events until none is left.
func (tr *trial) send(r *rand.Rand) {
	for tr.t.Context().Err() == nil && !tr.t.Failed() {
		i := tr.next.Add(1) - 1
		if i >= int64(len(tr.events)) {
			return
		}
		ev := tr.events[i]
		var copies sync.WaitGroup
		first := r.IntN(len(tr.receivers))
		copies.Go(func() { tr.deliver(ev, first) })
		if ev.twin {
			tr.count(&tr.figures.twins)
			copies.Go(func() { tr.deliver(ev, first+r.IntN(2)) })
		}
		copies.Wait()
		if ev.again {
			tr.count(&tr.figures.repeats)
			tr.deliver(tr.earlier(r), first)
		}
	}
}

// earlier returns a random acknowledged event.
func (tr *trial) earlier(r *rand.Rand) *event {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.acknowledged[r.IntN(len(tr.acknowledged))]
}

func (tr *trial) count(n *int) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	*n++
}

// deliver repeats a delivery until it is acknowledged, each time to the next place.
func (tr *trial) deliver(ev *event, at int) {
	for began := time.Now(); time.Since(began) < eventually.Bound; at++ {
		address := tr.receivers[at%len(tr.receivers)].listening()
		if address != "" && tr.answered(ev, address) {
			return
		}
		select {
		case <-tr.t.Context().Done():
			return // the test has failed elsewhere
		case <-time.After(senderPause):
		}
	}
	tr.t.Errorf("%s was not acknowledged within %s", ev.ID, eventually.Bound)
}

// answered makes a delivery once, and reports whether it is acknowledged.
func (tr *trial) answered(ev *event, address string) bool {
	status, answer, err := tr.post(ev, address)
	tr.mu.Lock()
	defer tr.mu.Unlock()
	f := &tr.figures
	switch {
	case err != nil:
		f.cut++
		return false
	case status == http.StatusServiceUnavailable:
		f.unavailable++
		return false
	case status == http.StatusOK && answer.Status == "ok" && answer.EventID == ev.ID:
		if ev.claimed++; ev.claimed > 1 {
			tr.t.Errorf("%s was answered ok twice, so it was claimed twice", ev.ID)
		}
	case status == http.StatusOK && answer.Status == "duplicate" && answer.EventID == ev.ID:
		f.duplicates++
		if answer.Reopened {
			f.reopened++
		}
	default:
		tr.t.Errorf("%s: answered %d %+v", ev.ID, status, answer)
		return true // another try would be answered the same
	}
	tr.acks.Add(1)
	if !ev.acked {
		ev.acked = true
		tr.acknowledged = append(tr.acknowledged, ev)
	}
	return true
}

// answer is the JSON body of the answer to a delivery.
type answer struct {
	Status   string `json:"status"`
	EventID  string `json:"event_id"`
	Reopened bool   `json:"reopened"`
}

// post makes a delivery. It returns an error only if the connection failed.
func (tr *trial) post(ev *event, address string) (int, answer, error) {
	var a answer
	req, err := http.NewRequest(http.MethodPost, "http://"+address+"/webhooks/"+sourceName, strings.NewReader(ev.body))
	if err != nil {
		return 0, a, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(signatureIn, ev.signature)
	resp, err := tr.client.Do(req)
	if err != nil {
		return 0, a, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, a, err
	}
	_ = json.Unmarshal(body, &a) // the caller checks the fields
	return resp.StatusCode, a, nil
}
