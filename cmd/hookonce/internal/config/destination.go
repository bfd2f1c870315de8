package config

import (
	"cmp"
	"net/url"
	"slices"
	"strings"

	"github.com/hookonce/hookonce"
	"github.com/hookonce/hookonce/driver"
	"github.com/hookonce/hookonce/internal/defaults"
	"github.com/hookonce/hookonce/internal/settingfile"
	"github.com/hookonce/hookonce/provider"
	"github.com/hookonce/hookonce/sendamqp"
	"github.com/hookonce/hookonce/sendkafka"
	"github.com/hookonce/hookonce/sendnats"
)

// Limits of a destination's settings.
const (
	maxAttempts    = 1000
	maxConcurrency = 10_000
	maxRetryDelay  = 30 * day
)

var destinationKeys = []string{"url", "secret", "timeout", "retry", "concurrency", "rate", "connections", "key"}

// destination reads the keys of a destination from m, which is the mapping at.
func (r *routeReader) destination(name string, at *node, m mapping) hookonce.Destination {
	r.places["destinations."+name] = at
	retry := r.mapping(m.get("retry"), "attempts", "first", "max", "on_dead")
	d := hookonce.Destination{
		Name:        name,
		Timeout:     r.duration(m.get("timeout"), 1, driver.LongestTimeout),
		Concurrency: r.count(m.get("concurrency"), 1, maxConcurrency),
		Rate:        r.rate(m.get("rate")),
		Retry: hookonce.Retry{
			Attempts: r.count(retry.get("attempts"), 1, maxAttempts),
			First:    r.duration(retry.get("first"), 1, maxRetryDelay),
			Max:      r.duration(retry.get("max"), 1, maxRetryDelay),
		},
		OnDead: r.word(retry.get("on_dead")),

		FreshConnections: r.choice(m.get("connections"), "keep", "fresh") == "fresh",
		// The author of the settings file may name any host.
		AllowPrivate: true,
	}
	if text := r.word(m.get("url")); text != "" {
		r.target(&d, m.get("url"), text, m.get("key"))
	}
	secret, _ := r.secret(m.get("secret"))
	d.Secret = string(secret)
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
func (r *routeReader) target(d *hookonce.Destination, url *node, text string, key *node) {
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
		return
	}
	sender, err := connect(text, location)
	if err != nil {
		r.fault(url, "%s", err)
		return
	}
	r.warnFiles(url, text)
	d.Sender, d.AllowPrivate = sender, false
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
				r.warn(r.find("destinations."+d.Name+".url"), "max_body of source %s (%d bytes) is larger than max_message_bytes (%d): hookonce accepts a larger event, and its message is dead at once",
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
