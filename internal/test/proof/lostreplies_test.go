package proof

import (
	"net/url"
	"testing"
	"time"

	"github.com/hookonce/hookonce/internal/test/dbtest"
)

func TestExactlyOnceLostReplies(t *testing.T) {
	t.Parallel()
	lostReplies(t)
}

// lostName is the name of a figure.
const lostName = "replies of the database that were lost"

// lostReplies runs a trial whose workers reach the database through a network that takes replies away. The database
// has committed: a claim, the work of handlers, the outcome of a message. The worker cannot know.
func lostReplies(t *testing.T) []figure {
	t.Helper()
	db := newDatabase(t, withPgx)
	server, err := url.Parse(db.address)
	if err != nil {
		t.Fatal(err)
	}
	proxy := dbtest.StartProxy(t, server.Host)
	db.address = proxy.DSN(t, db.address)
	tr := newTrial(t, db, nil)
	for _, name := range []string{"worker0", "worker1"} {
		tr.addPlace(name, settings{HandlerTimeout: time.Second})
	}
	lost := make(map[string]int) // by statement
	ended, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for n := 0; ; n++ {
			statement, cut := []string{".claim(", "commit", ".complete("}[n%3], dbtest.CutReset
			if n%10 == 0 {
				cut = dbtest.CutSilence
			}
			select {
			case <-proxy.DropReply(statement, cut).Done():
				lost[statement]++
			case <-time.After(5 * time.Second): // nothing to send, perhaps
			case <-ended:
				return
			}
			select {
			case <-time.After(20 * time.Millisecond):
			case <-ended:
				return
			}
		}
	}()
	tr.run()
	close(ended)
	<-stopped
	return tr.report(tr.check(), figure{lostName, lost[".claim("] + lost["commit"] + lost[".complete("], true},
		figure{"of them, replies to a claim", lost[".claim("], true},
		figure{"of them, replies to the commit of handlers", lost["commit"], true},
		figure{"of them, replies to the outcome of a message", lost[".complete("], true})
}
