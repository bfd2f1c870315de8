package demo

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hookonce/hookonce/provider"
)

// The size of the demo.
const (
	eventCount   = 2000
	forgeryCount = 312
	changedTwice = 64 // customers with two changes; the older one is delivered last
	closedCount  = 5  // transfers to an account that is closed at first
)

// closedAccount is refused by the bank until it is opened.
const closedAccount = "cus_closed"

// event is one thing that a provider tells.
type event struct {
	source provider.Name
	form   *form
	id     string
	body   string
	facts
}

// delivery is one request that a provider plans to send.
type delivery struct {
	*event
	forged forgery
	// impatient senders hang up before the answer, and deliver again at once.
	impatient bool
}

// volley holds deliveries that are sent at the same moment: one, or concurrent copies of one event.
type volley []delivery

// plan is the traffic of the demo. It is the same in every run, except for the secrets.
type plan struct {
	events     []*event // authentic ones
	forged     int
	deliveries int
	volleys    []volley
}

// planner collects volleys, each with its place in the order.
type planner struct {
	plan
	random *rand.Rand
	placed []placedVolley
}

type placedVolley struct {
	place int
	volley
}

func newPlan() *plan {
	p := &planner{random: rand.New(rand.NewPCG(17, 1))} // the same in every run
	for n := range eventCount {
		e := p.newEvent(n)
		p.events = append(p.events, e)
		p.schedule(n, e)
	}
	p.makeLate()
	p.forge()
	slices.SortStableFunc(p.placed, func(a, b placedVolley) int { return cmp.Compare(a.place, b.place) })
	for _, v := range p.placed {
		p.volleys = append(p.volleys, v.volley)
		p.deliveries += len(v.volley)
	}
	return &p.plan
}

// newEvent makes the n-th event. The first ones are the changes: of each customer, the newer one first.
func (p *planner) newEvent(n int) *event {
	source := names[n%len(names)]
	e := &event{source: source, form: &forms[source][0]}
	account, version := fmt.Sprintf("cus_%03d", p.random.IntN(200)), n
	switch {
	case n < 2*changedTwice:
		changing := []provider.Name{provider.Stripe, provider.Shopify, provider.Paddle}
		customer := n % changedTwice
		e.source = changing[customer%len(changing)]
		e.form = &forms[e.source][1]
		account, version = fmt.Sprintf("cus_moved_%02d", customer), 2*changedTwice-n
	case n >= eventCount/2 && n < eventCount/2+closedCount:
		account = closedAccount
	}
	e.fill(n, account, 100+p.random.Int64N(9900), version)
	return e
}

// fill writes the body of the n-th event. version is in seconds.
func (e *event) fill(n int, account string, cents int64, version int) {
	occurred := time.Date(2026, 1, 1, 0, 0, version, 0, time.UTC)
	e.id = fmt.Sprintf("evt_%05d", n+1)
	e.account = account
	e.body = strings.NewReplacer(
		"{id}", e.id, "{n}", strconv.Itoa(n+1), "{account}", account, "{cents}", strconv.FormatInt(cents, 10),
		"{euros}", fmt.Sprintf("%d.%02d", cents/100, cents%100),
		"{unix}", strconv.FormatInt(occurred.Unix(), 10), "{time}", occurred.Format(time.RFC3339),
	).Replace(e.form.body)
	e.facts, _ = e.form.read([]byte(e.body)) // a test reads every form
}

// schedule plans the deliveries of the n-th event: as most are, delivered a few times over; as a retry
// storm, many copies at once; or by a sender that does not wait for the answer.
func (p *planner) schedule(n int, e *event) {
	one := delivery{event: e}
	later := func(copies int) {
		for range copies {
			p.add(n+20+p.random.IntN(400), volley{one})
		}
	}
	switch kind := p.random.IntN(100); {
	case kind < 60:
		p.add(n, volley{one})
		later(2 + p.random.IntN(5))
	case kind < 85:
		p.add(n, slices.Repeat(volley{one}, 4+p.random.IntN(6)))
		later(1)
	case kind < 95:
		hasty := one
		hasty.impatient = true
		p.add(n, volley{hasty})
		later(1)
	default:
		p.add(n, volley{one})
	}
}

func (p *planner) add(place int, v volley) { p.placed = append(p.placed, placedVolley{place, v}) }

// makeLate moves all deliveries of the older changes, which newEvent made second, far behind the newer
// ones.
func (p *planner) makeLate() {
	late := make(map[*event]bool, changedTwice)
	for _, e := range p.events[changedTwice : 2*changedTwice] {
		late[e] = true
	}
	for i := range p.placed {
		if late[p.placed[i].volley[0].event] {
			p.placed[i].place += 600
		}
	}
}

// forge adds requests of somebody who does not know the secrets.
func (p *planner) forge() {
	for n := range forgeryCount {
		source := names[n%len(names)]
		how := []forgery{corrupted, wrongSecret, unsigned, captured}[n/len(names)%4]
		if how == captured && (source == provider.GitHub || source == provider.Shopify) {
			how = wrongSecret // they sign no time
		}
		e := &event{source: source, form: &forms[source][0]}
		e.fill(eventCount+n, "cus_thief", 1_000_000, 0)
		e.id = fmt.Sprintf("evt_forged_%03d", n+1)
		p.add(p.random.IntN(eventCount), volley{{event: e, forged: how}})
	}
	p.forged = forgeryCount
}
