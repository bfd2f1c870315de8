package adminclient

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/hookonce/hookonce/hookadmin"
)

const (
	// followPause is the wait before a stream is opened again.
	followPause = time.Second
	// maxSilence ends a stream whose gateway no longer sends heartbeats.
	maxSilence = 45 * time.Second
	// maxLine bounds a line of a stream, in bytes. Longer ones are not of hookonce.
	maxLine = 1 << 20
)

// Follow follows the live stream.
type Follow struct {
	// Query holds the parameters of the stream.
	Query url.Values
	// Opened is called when the stream was opened for the first time. Later rows come to Show. Its error
	// stops Run.
	Opened func() error
	// Again, if not nil, is called when the stream was opened again.
	Again func()
	// Show receives each row. Its error stops Run.
	Show func(*hookadmin.StreamRow) error
	// Missing is called when rows are missing before the next one.
	Missing func()
	// Trouble is called once at the beginning of each outage.
	Trouble func(error)

	last     string // the id of the last row
	opened   bool
	troubled bool
}

// Run follows until ctx ends, and then returns nil. After it has opened the stream once, it opens the
// stream again whenever it breaks, and resumes.
func (f *Follow) Run(ctx context.Context, c *Client) error {
	for {
		err := f.once(ctx, c)
		var stop *stopError
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.As(err, &stop):
			return stop.error
		case !f.opened || lasts(err):
			return err
		case errors.Is(err, io.EOF): // streams end by themselves; the next error counts
		case !f.troubled:
			f.troubled = true
			f.Trouble(err)
		}
		if !pause(ctx) {
			return nil
		}
	}
}

// pause waits for a moment. It returns false if ctx ends meanwhile.
func pause(ctx context.Context) bool {
	timer := time.NewTimer(followPause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// stopError is an error of a function of Follow.
type stopError struct{ error }

// lasts reports whether err is a refusal that does not pass by itself.
func lasts(err error) bool {
	var p *Problem
	return errors.As(err, &p) && p.Status < 500 && p.Status != http.StatusTooManyRequests
}

// once follows one stream to its end.
func (f *Follow) once(ctx context.Context, c *Client) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	silence := time.AfterFunc(maxSilence, func() { cancel(errSilent) })
	defer silence.Stop()
	body, err := c.Stream(ctx, api+"/stream", f.Query, f.last)
	if err != nil {
		return cmp.Or(context.Cause(ctx), err)
	}
	defer body.Close()
	if !f.opened {
		if err := f.Opened(); err != nil {
			return &stopError{err}
		}
		f.opened = true
	} else if f.Again != nil {
		f.Again()
	}
	f.troubled = false
	var event, data string
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, maxLine)
	for lines.Scan() {
		silence.Reset(maxSilence)
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch name {
		case "id":
			f.last = value
		case "event":
			event = value
		case "data":
			data = value
		case "":
			if lines.Text() == "" && data != "" {
				if err := f.show(c, event, data); err != nil {
					return err
				}
				event, data = "", ""
			}
		}
	}
	return cmp.Or(context.Cause(ctx), lines.Err(), io.EOF)
}

var errSilent = errors.New("the gateway has been silent for too long")

// show shows one item of the stream.
func (f *Follow) show(c *Client, event, data string) error {
	if event == "reload" {
		f.Missing()
		return nil
	}
	var row hookadmin.StreamRow
	if err := json.Unmarshal([]byte(data), &row); err != nil {
		return &stopError{&StrangerError{c.String(), "a row of its stream cannot be read: " + err.Error()}}
	}
	if err := f.Show(&row); err != nil {
		return &stopError{err}
	}
	return nil
}
