package cli

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/adminclient"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/hookadmin"
	"github.com/hookonce/hookonce/internal/say"
	"github.com/hookonce/hookonce/internal/shown"
)

const (
	// maxPaused is how many rows wait while tail is paused. Of further ones the oldest are left out.
	maxPaused = 1000
	// maxSelectable is how many of the last events can be selected.
	maxSelectable = 100
)

// tailKeys is a tail on a terminal. Its rows come from another goroutine than its keys.
type tailKeys struct {
	*tail
	screen *screen
	text   *tailText
	api    func() (*api, error)

	mu     sync.Mutex
	paused bool
	rows   []*hookadmin.StreamRow // while paused
	lost   int                    // rows that were left out of them
	filter string                 // in lower case; "" for none
	typing bool                   // the filter is typed
	typed  string
	ask    *tailQuestion
	events []eventName // of the last rows, without repetitions, oldest first
	chosen eventName   // the selected one; zero for the newest
}

type eventName struct{ source, id string }

// tailQuestion is a question in the status line. The next key answers it.
type tailQuestion struct {
	text    string
	answers map[rune]func(context.Context)
}

// gatewayAPI returns a function that returns the API of a gateway.
func gatewayAPI(client *adminclient.Client) func() (*api, error) {
	return func() (*api, error) { return &api{Client: client}, nil }
}

// watch calls follow, and works on keys if there is a terminal.
func (t *tail) watch(ctx context.Context, open func() (*api, error), follow func(context.Context) error) error {
	written, isText := t.out.(*tailText)
	if !isText {
		return follow(ctx)
	}
	screen := t.newScreen()
	if screen == nil {
		return follow(ctx)
	}
	defer screen.close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	k := &tailKeys{tail: t, screen: screen, text: written, api: sync.OnceValues(open)}
	written.out, t.out, t.notes = screen, k, screen
	k.showStatus()
	ended := make(chan error, 1)
	go func() {
		defer screen.guard()
		ended <- follow(ctx)
	}()
	for {
		select {
		case key := <-screen.pressed():
			if k.press(ctx, key) {
				cancel()
				return <-ended
			}
		case <-screen.ready():
		case err := <-ended:
			return err
		}
	}
}

// write implements tailWriter.
func (k *tailKeys) write(row *hookadmin.StreamRow) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.paused {
		return k.show(row)
	}
	if k.rows = append(k.rows, row); len(k.rows) > maxPaused {
		k.rows, k.lost = k.rows[1:], k.lost+1
	}
	k.showStatus()
	return nil
}

// show shows a row if the filter selects it.
func (k *tailKeys) show(row *hookadmin.StreamRow) error {
	if !k.matches(row) {
		return nil
	}
	if name := (eventName{row.Source, row.EventID}); row.EventID != "" {
		k.events = slices.DeleteFunc(k.events, func(e eventName) bool { return e == name })
		k.events = append(k.events, name)
		k.events = k.events[max(0, len(k.events)-maxSelectable):]
	}
	return k.text.write(row)
}

// matches reports whether the filter is in a text of the row.
func (k *tailKeys) matches(row *hookadmin.StreamRow) bool {
	if k.filter == "" {
		return true
	}
	texts := []string{row.Source, row.Destination, row.Type, row.EventID, outcomeOf(row), remarkOf(row)}
	return strings.Contains(strings.ToLower(strings.Join(texts, "\n")), k.filter)
}

// showStatus explains the keys.
func (k *tailKeys) showStatus() {
	var parts []string
	switch {
	case k.ask != nil:
		k.screen.setStatus(k.ask.text)
		return
	case k.typing:
		k.screen.setStatus("/" + k.typed + "▏ Enter filters · Esc clears")
		return
	case k.paused:
		parts = append(parts, "Paused: "+say.Number(len(k.rows)+k.lost)+" new · p go on")
	default:
		parts = append(parts, "p pause")
	}
	if k.filter != "" {
		parts = append(parts, fmt.Sprintf("/ filter %q · Esc clear", k.filter))
	} else {
		parts = append(parts, "/ filter")
	}
	if k.chosen.id != "" {
		parts = append(parts, "selected "+k.chosen.id)
	}
	k.screen.setStatus(strings.Join(append(parts, "Enter show", "r replay", "q quit"), " · "))
}

// selected returns the selected event, if there is one.
func (k *tailKeys) selected() (eventName, bool) {
	if k.chosen.id != "" {
		return k.chosen, true
	}
	if len(k.events) == 0 {
		return eventName{}, false
	}
	return k.events[len(k.events)-1], true
}

// move selects the event that is so many further.
func (k *tailKeys) move(by int) {
	if len(k.events) == 0 {
		return
	}
	last := len(k.events) - 1
	at := slices.Index(k.events, k.chosen)
	if at < 0 { // none, or one that is no longer among the last
		at = last
	}
	at = min(max(at+by, 0), last)
	if k.chosen = k.events[at]; at == last {
		k.chosen = eventName{} // the newest, also when there are newer ones
	}
}

// press works on a key. It reports whether the key ends tail.
func (k *tailKeys) press(ctx context.Context, key rune) (quit bool) {
	k.mu.Lock()
	work, quit := k.decide(key)
	k.showStatus()
	k.mu.Unlock()
	if work == nil {
		return quit
	}
	work(ctx) // without the lock: rows go on
	k.mu.Lock()
	defer k.mu.Unlock()
	k.showStatus()
	return false
}

// decide changes the state by a key, or returns the work to do without the lock.
func (k *tailKeys) decide(key rune) (work func(context.Context), quit bool) {
	if key == keyInterrupt {
		return nil, true
	}
	if k.ask != nil {
		work, k.ask = k.ask.answers[key], nil
		return work, false
	}
	if k.typing {
		k.typeKey(key)
		return nil, false
	}
	name, found := k.selected()
	switch {
	case key == 'q':
		return nil, true
	case key == 'p':
		k.pause(!k.paused)
	case key == '/':
		k.typing, k.typed = true, k.filter
	case key == keyEscape:
		k.filter, k.chosen = "", eventName{}
	case key == 'k':
		k.move(-1)
	case key == 'j':
		k.move(1)
	case key == keyEnter && found:
		k.pause(true) // later rows would push it away
		return func(ctx context.Context) { k.showEvent(ctx, name) }, false
	case key == 'r' && found:
		return func(ctx context.Context) { k.askReplay(ctx, name) }, false
	}
	return nil, false
}

func (k *tailKeys) typeKey(key rune) {
	switch {
	case key == keyEnter:
		k.typing, k.filter = false, strings.ToLower(k.typed)
	case key == keyEscape:
		k.typing, k.filter = false, ""
	case key == keyBackspace:
		if runes := []rune(k.typed); len(runes) > 0 {
			k.typed = string(runes[:len(runes)-1])
		}
	case !shown.Unprintable(key):
		k.typed += string(key)
	}
}

// pause begins or ends a pause, and then shows the rows that came meanwhile.
func (k *tailKeys) pause(on bool) {
	if k.paused = on; on {
		return
	}
	rows, lost := k.rows, k.lost
	k.rows, k.lost = nil, 0
	if lost > 0 {
		fmt.Fprintf(k.screen, "Warning: %s rows are left out here; hookonce events list shows their events\n", say.Number(lost))
	}
	for _, row := range rows {
		if k.show(row) != nil {
			return // the terminal is gone
		}
	}
}

// showEvent shows one event.
func (k *tailKeys) showEvent(ctx context.Context, name eventName) {
	api, err := k.api()
	if err != nil {
		k.fail(err)
		return
	}
	found, err := api.Event(ctx, name.source, name.id)
	if err != nil {
		k.fail(fmt.Errorf("reading an event: %w", err))
		return
	}
	page := &screenPage{screen: k.screen}
	page.WriteByte('\n')
	printEvent(page, found)
	page.WriteByte('\n')
	_, _ = k.screen.Write(page.Bytes())
}

// screenPage is text for a screen, which is shown at once.
type screenPage struct {
	bytes.Buffer
	screen *screen
}

func (p *screenPage) width() int { return p.screen.width() }

// fail shows an error above the status line.
func (k *tailKeys) fail(err error) {
	shown := *k.program
	shown.stderr = k.screen
	shown.report(shown.rootCommand(), err)
}

// askReplay asks whether, and how, to replay an event.
func (k *tailKeys) askReplay(ctx context.Context, name eventName) {
	api, err := k.api()
	if err != nil {
		k.fail(err)
		return
	}
	found, err := api.Event(ctx, name.source, name.id)
	if err != nil {
		k.fail(fmt.Errorf("reading an event: %w", err))
		return
	}
	replay := func(how hookadmin.ReplayRequest) func(context.Context) {
		return func(ctx context.Context) { k.replay(ctx, api, name, &how) }
	}
	question := &tailQuestion{
		text:    fmt.Sprintf("Replay %s %s (%s)? y yes · other keys no", name.source, name.id, found.State),
		answers: map[rune]func(context.Context){'y': replay(hookadmin.ReplayRequest{})},
	}
	if found.State == driver.StateDone {
		question.text = fmt.Sprintf("Replay %s %s (done)? w as new, the work is done again · s same ids · other keys no", name.source, name.id)
		question.answers = map[rune]func(context.Context){
			'w': replay(hookadmin.ReplayRequest{AsNew: true}), 's': replay(hookadmin.ReplayRequest{SameID: true}),
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ask = question
}

func (k *tailKeys) replay(ctx context.Context, api *api, name eventName, how *hookadmin.ReplayRequest) {
	replayed, err := api.ReplaySafely(ctx, name.source, name.id, "tail_"+rand.Text(), how)
	if err != nil {
		k.fail(fmt.Errorf("event %q of source %q is not replayed: %w", name.id, name.source, err))
		return
	}
	fmt.Fprintf(k.screen, "Replayed event %q of source %q: %s.\n", name.id, name.source, dueAfter(replayed))
}
