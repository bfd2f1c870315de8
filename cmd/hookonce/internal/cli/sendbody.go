package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hookonce/hookonce/cmd/hookonce/internal/samples"
	"github.com/hookonce/hookonce/internal/locate"
	"github.com/hookonce/hookonce/internal/sample"
	"github.com/hookonce/hookonce/internal/shown"
	"github.com/hookonce/hookonce/provider"
	"github.com/hookonce/hookonce/verify"
)

const formType = "application/x-www-form-urlencoded"

// arguments demands URL, and with --from-event the event id, too.
func (f *sendFlags) arguments(cmd *cobra.Command, args []string) error {
	switch {
	case f.fromEvent == "" && !cmd.Flags().Changed("from-event"):
		return arguments("URL")(cmd, args)
	case len(args) != 2 || f.fromEvent == "":
		return fmt.Errorf("%q needs URL, and both words of --from-event SOURCE EVENT_ID", cmd.CommandPath())
	}
	return nil
}

// operands returns the URL, and the event id of --from-event: of the two arguments, that is the one
// behind the source on the command line.
func (f *sendFlags) operands(line, args []string) (target, eventID string) {
	if f.fromEvent == "" {
		return args[0], ""
	}
	at := slices.Index(line, "--from-event") + 2
	if at == 1 {
		at = slices.Index(line, "--from-event="+f.fromEvent) + 1
	}
	if at < len(line) && line[at] == args[0] && args[0] != args[1] {
		return args[1], args[0]
	}
	return args[0], args[1]
}

// chooseBody reads --body, or else chooses a sample, and reads --set.
func (p *program) chooseBody(s *sending) error {
	f := s.flags
	var err error
	if s.set, err = f.settings(); err != nil {
		return err
	}
	switch {
	case f.body != "":
		s.body, err = f.readBody(p.stdin)
		return err
	case s.stored != nil:
		return f.useStored(s)
	case f.sample != "":
		if err := f.chooseSample(s); err != nil {
			return err
		}
	default:
		p.defaultSample(s)
	}
	switch {
	case f.eventType != "":
	case s.sample != nil:
		f.eventType = s.sample.Type
	default:
		f.eventType = "test"
	}
	return nil
}

// chooseSample finds the sample of --sample.
func (f *sendFlags) chooseSample(s *sending) error {
	spec := s.sender.Spec
	var names []string
	for _, one := range samples.Of(spec.Name) {
		names = append(names, one.Name)
	}
	if len(names) == 0 {
		var with []string
		for _, name := range samples.Providers() {
			with = append(with, string(name))
		}
		return f.usage("--sample: there are none of provider %s; there are some of %s. Give the body by --body", spec.Name, strings.Join(with, ", "))
	}
	found, ok := samples.Find(spec.Name, f.sample)
	switch {
	case !ok:
		return f.usage("--sample: provider %s has no sample %q; it has %s", spec.Name, f.sample, strings.Join(names, ", "))
	case !s.fits(found):
		return f.usage("--sample: scheme %s of provider %s sends %s, and the samples are of another scheme: give the body by --body",
			s.sender.Scheme.ID, spec.Name, s.sender.ContentType())
	}
	s.sample = found
	return nil
}

// defaultSample chooses the sample of --type, or the provider's default one.
func (p *program) defaultSample(s *sending) {
	all := samples.Of(s.sender.Spec.Name)
	if len(all) == 0 || !s.fits(&all[0]) {
		return
	}
	if s.flags.eventType == "" {
		s.sample = &all[0]
		return
	}
	if found, ok := samples.Find(s.sender.Spec.Name, s.flags.eventType); ok {
		s.sample = found
		return
	}
	fmt.Fprintf(p.stderr, "Note: there is no sample of type %q, so the body holds little else; --sample names a realistic one\n",
		shown.Escape(s.flags.eventType))
}

// fits reports whether the sender's bodies have the form of a sample.
func (s *sending) fits(one *samples.Sample) bool {
	return one.Form == (s.sender.ContentType() == formType) && s.sender.Rules.Document == ""
}

// origin names the origin of the body.
func (s *sending) origin() string {
	switch {
	case s.flags.body != "":
		return "--body"
	case s.stored != nil:
		return "--from-event"
	}
	return "--set"
}

// draft returns the draft of the n-th event.
func (s *sending) draft(n int) sample.Draft {
	now := time.Now()
	if s.sender.Spec.Retry.Signed == provider.SignedOnce {
		now = s.began // all attempts of this sender have the time of the first
	}
	d := sample.Draft{
		URL: s.url, RawQuery: s.target.RawQuery, Body: s.body, Now: now.Add(s.flags.skew),
		Event: sample.Event{ID: s.id(n), MadeUp: s.flags.id == "", Type: s.flags.eventType, Time: s.began},
	}
	switch {
	case s.stored != nil:
		d.Event = sample.Event{ID: s.flags.id, Type: s.flags.eventType} // the rest stays as it is
		d.Header = s.stored.header.Clone()
		if s.body == nil {
			d.Model = s.stored.body
		}
	case s.sample != nil:
		d.Model, d.Unique = s.sample.Body(s.id(n)), s.sample.Differs()
	}
	return d
}

// setting is one --set.
type setting struct{ path, value string }

// settings reads --set.
func (f *sendFlags) settings() ([]setting, error) {
	var all []setting
	for _, text := range f.set {
		path, value, ok := strings.Cut(text, "=")
		if !ok || path == "" {
			return nil, f.usage("--set: write it as PATH=VALUE, such as data.object.amount=5")
		}
		if _, err := locate.ParsePath(path); err != nil {
			return nil, f.usage("--set %s: %w", path, err)
		}
		all = append(all, setting{path, value})
	}
	return all, nil
}

// applySettings carries out --set, before the request is signed.
func (s *sending) applySettings(req *verify.Request) error {
	if len(s.set) == 0 {
		return nil
	}
	if req.Header.Get("Content-Encoding") != "" {
		return errors.New("--set: the body is compressed; give another one by --body")
	}
	if isForm(req.Header) {
		form, err := url.ParseQuery(string(req.Body))
		if err != nil {
			return fmt.Errorf("--set: the form cannot be read: %w", err)
		}
		for _, one := range s.set {
			form.Set(one.path, one.value)
		}
		req.Body = []byte(form.Encode())
		return nil
	}
	for _, one := range s.set {
		value := []byte(one.value)
		if !json.Valid(value) {
			value, _ = json.Marshal(one.value) // a string always encodes
		}
		body, err := sample.SetJSON(req.Body, one.path, bytes.TrimSpace(value))
		if err != nil {
			return fmt.Errorf("--set %s: %w", one.path, err)
		}
		req.Body = body
	}
	return nil
}

func isForm(h http.Header) bool {
	kind, _, _ := strings.Cut(h.Get("Content-Type"), ";")
	return strings.EqualFold(strings.TrimSpace(kind), formType)
}
