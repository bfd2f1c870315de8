package config

import (
	"cmp"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/internal/defaults"
	"github.com/hookonce/hookonce/internal/say"
	"github.com/hookonce/hookonce/internal/send"
	"github.com/hookonce/hookonce/internal/settingfile"
	"github.com/hookonce/hookonce/provider"
	"github.com/hookonce/hookonce/sendamqp"
	"github.com/hookonce/hookonce/sendkafka"
	"github.com/hookonce/hookonce/sendnats"
)

// Limits of a destination's settings. A message stays leased for the timeout, so a long timeout
// would hold the messages of a dead process.
const (
	maxTimeout     = time.Hour
	maxAttempts    = 1000
	maxConcurrency = 10_000
	maxRetryDelay  = 30 * day
)

var destinationKeys = []string{"url", "secret", "timeout", "retry", "concurrency", "rate", "connections", "key"}

// destination reads the keys of a destination from m. at is the node for faults about a missing
// key.
func (r *routeReader) destination(name string, at *node, m mapping) hookonce.Destination {
	retry := r.mapping(m.get("retry"), "attempts", "first", "max", "on_dead")
	d := hookonce.Destination{
		Name:        name,
		Timeout:     cmp.Or(r.duration(m.get("timeout"), 1, maxTimeout), defaults.SendTimeout),
		Concurrency: cmp.Or(r.count(m.get("concurrency"), 1, maxConcurrency), defaults.Concurrency),
		Rate:        r.rate(m.get("rate")),
		Retry:       r.retry(retry),
		OnDead:      r.onDead(name, retry.get("on_dead")),

		FreshConnections: r.choice(m.get("connections"), "keep", "fresh") == "fresh",
		// The author of the settings file may name any host.
		AllowPrivate: true,
	}
	url := m.get("url")
	if text, ok := r.text(url); ok {
		r.target(&d, url, text, m.get("connections"), m.get("key"))
	} else if url == nil && m.node != nil {
		r.fault(at, "the destination has no url")
	}
	secretNode := m.get("secret")
	if secret, ok := r.secret(secretNode); ok {
		weak, err := send.CheckSecret(string(secret))
		if r.judgeKey(secretNode, weak, err) {
			d.Secret = string(secret)
		}
	}
	return d
}

// engines make the Sender of a URL, by its scheme.
var engines = map[string]func(url, key string) (hookonce.Sender, error){
	"nats":   toNATS,
	"tls":    toNATS,
	"amqp":   toRabbitMQ,
	"amqps":  toRabbitMQ,
	"kafka":  toKafka,
	"kafkas": toKafka,
}

// The author of the settings file may name any host.

func toNATS(url, _ string) (hookonce.Sender, error) {
	return sendnats.New(url, sendnats.Options{AllowPrivate: true})
}

func toRabbitMQ(url, _ string) (hookonce.Sender, error) {
	return sendamqp.New(url, sendamqp.Options{AllowPrivate: true})
}

func toKafka(url, key string) (hookonce.Sender, error) {
	return sendkafka.New(url, sendkafka.Options{Key: key, AllowPrivate: true})
}

// target sets where messages to d go: by HTTP, or to the engine that the scheme of the URL names.
func (r *routeReader) target(d *hookonce.Destination, url *node, text string, connections, key *node) {
	scheme, _, _ := strings.Cut(text, "://")
	connect := engines[scheme]
	location, keyed := r.text(key)
	switch isKafka := scheme == "kafka" || scheme == "kafkas"; {
	case key != nil && !isKafka:
		r.fault(key, "key is for kafka:// and kafkas://; leave it out with other URLs")
	case keyed:
		if err := sendkafka.CheckKey(location); err != nil {
			r.fault(key, "%s", err)
			location = ""
		}
	}
	if connect == nil {
		d.URL = text
		r.checkURL(url, text)
		return
	}
	sender, err := connect(text, location)
	if err != nil {
		r.fault(url, "%s", err)
		return
	}
	if connections != nil {
		r.fault(connections, "connections is for http and https; leave it out with %s://", scheme)
	}
	r.warnFiles(url, text)
	d.Sender, d.AllowPrivate, d.FreshConnections = sender, false, false
	r.urls[d.Name] = url
}

// warnFiles warns of the files that text, the checked URL of a broker, names.
func (r *routeReader) warnFiles(n *node, text string) {
	_, raw, _ := strings.Cut(text, "?")
	query, _ := url.ParseQuery(raw)
	for _, name := range []string{"ca", "creds"} {
		if path := query.Get(name); path != "" {
			if file, err := settingfile.Read(path, maxFile); err == nil {
				r.warnShared(n, file, "the file of its "+name, name == "creds")
			}
		}
	}
}

// checkSizes warns of sources that accept events whose messages Kafka takes in no attempt.
func (r *routeReader) checkSizes() {
	for _, d := range r.config.Destinations {
		kafka, ok := d.Sender.(*sendkafka.Sender)
		if !ok {
			continue
		}
		for _, s := range r.config.Sources {
			most := maxBody(&s)
			if s.MaxBody == 0 && most == defaults.MaxBody && kafka.MaxMessageBytes() == sendkafka.DefaultMaxMessageBytes {
				continue // the defaults differ by a twentieth: few events are so large, and the docs tell of them
			}
			if most > int64(kafka.MaxMessageBytes()) && r.leads(&s, d.Name) {
				r.warn(r.urls[d.Name], "max_body of source %s (%d bytes) is larger than max_message_bytes (%d): hookonce accepts a larger event, and its message is dead at once",
					s.Name, most, kafka.MaxMessageBytes())
			}
		}
	}
}

// maxBody returns the limit that the engine has for s.
func maxBody(s *hookonce.Source) int64 {
	least := int64(defaults.MaxBody)
	if spec, err := provider.Lookup(s.Provider); err == nil {
		least = max(least, spec.MaxBody)
	}
	return cmp.Or(s.MaxBody, least)
}

// leads reports whether a route may send events of s to a destination.
func (r *routeReader) leads(s *hookonce.Source, destination string) bool {
	return slices.ContainsFunc(r.config.Routes, func(route hookonce.Route) bool {
		return route.To == destination && (len(route.Sources) == 0 || slices.Contains(route.Sources, s.Name))
	})
}

// onDead reads on_dead of a source, or of the destination of. checkOnDead checks it, once all destinations
// are read.
func (l *loader) onDead(of string, n *node) string {
	target, ok := l.text(n)
	if ok {
		l.told = append(l.told, told{of, target, n})
	}
	return target
}

// told is a destination that is told of dead letters: those of another one, or of a source if of is "".
type told struct {
	of, target string
	node       *node
}

func (r *routeReader) checkOnDead() {
	known := slices.Sorted(maps.Keys(r.destinations))
	for _, t := range r.told {
		others := slices.DeleteFunc(slices.Clone(known), func(name string) bool { return name == t.of })
		switch {
		case t.of != "" && t.target == t.of:
			r.fault(t.node, "a destination cannot be told of its own dead letters; name another one")
		case !r.destinations[t.target]:
			r.faultHint(t.node, didYouMean(t.target, others), "there is no destination %s", t.node.shown())
		}
	}
}

func (r *routeReader) retry(m mapping) hookonce.Retry {
	first, most := m.get("first"), m.get("max")
	retry := hookonce.Retry{
		Attempts: cmp.Or(r.count(m.get("attempts"), 1, maxAttempts), defaults.SendAttempts),
		First:    cmp.Or(r.duration(first, 1, maxRetryDelay), defaults.FirstRetry),
		Max:      r.duration(most, 1, maxRetryDelay),
	}
	switch {
	case retry.Max == 0:
		retry.Max = max(defaults.MaxRetry, retry.First)
	case retry.Max < retry.First:
		r.fault(most, "max must not be shorter than first, which is %s", say.Setting(retry.First))
	}
	return retry
}
