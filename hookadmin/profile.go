package hookadmin

import (
	"context"
	"fmt"
	"net/http"
	"runtime"
	"runtime/pprof"
	"runtime/trace"
	"strconv"
	"sync"
	"time"
)

const (
	defaultProfile = 30 * time.Second
	// maxProfile leaves a server with a WriteTimeout of a minute time for the answer.
	maxProfile = 50 * time.Second
)

var profileParameters = []string{"seconds", "debug"}

// profiling keeps to one profile of the CPU and one trace at a time: the runtime has
// but one of each.
var profiling sync.Mutex

// showProfile serves what package net/http/pprof does, which is not used because to
// import it opens the profiles on http.DefaultServeMux, and that may be public. The
// command line of the process is left out: it may hold secrets.
func (h *handler) showProfile(w http.ResponseWriter, r *http.Request) {
	values, ok := h.query(w, r)
	if !ok {
		return
	}
	seconds, err := numberOf(values.Get("seconds"), int(defaultProfile/time.Second), int(maxProfile/time.Second))
	if err != nil {
		h.fail(w, r, http.StatusBadRequest, fmt.Sprintf("The parameter seconds must be 1 to %d.", maxProfile/time.Second), nil)
		return
	}
	debug, err := numberOf(values.Get("debug"), 0, 2)
	if err != nil {
		h.fail(w, r, http.StatusBadRequest, "The parameter debug must be 1 or 2; without it the answer is for \"go tool pprof\".", nil)
		return
	}
	name := r.PathValue("profile")
	switch name {
	case "profile":
		h.record(w, r, time.Duration(seconds)*time.Second, func() error { return pprof.StartCPUProfile(w) }, pprof.StopCPUProfile)
		return
	case "trace":
		h.record(w, r, time.Duration(seconds)*time.Second, func() error { return trace.Start(w) }, trace.Stop)
		return
	}
	profile := pprof.Lookup(name)
	if profile == nil {
		h.fail(w, r, http.StatusNotFound, "There is no such profile; there are profile, trace, allocs, block, goroutine, heap, mutex and threadcreate.", nil)
		return
	}
	if name == "heap" {
		runtime.GC() // or it shows what the last collection saw
	}
	setProfileType(w.Header(), debug)
	_ = profile.WriteTo(w, debug) // whoever hung up needs no profile
}

// record writes what is recorded between start and stop, for as long as said or until
// the caller hangs up.
func (h *handler) record(w http.ResponseWriter, r *http.Request, lasts time.Duration, start func() error, stop func()) {
	if !profiling.TryLock() {
		h.fail(w, r, http.StatusConflict, "Another profile is being recorded. Try again when it has ended.", nil)
		return
	}
	defer profiling.Unlock()
	setProfileType(w.Header(), 0)
	if err := start(); err != nil {
		// The program that embeds this handler may profile itself.
		h.fail(w, r, http.StatusConflict, "Another profile is being recorded. Try again when it has ended.", err)
		return
	}
	defer stop()
	ctx, cancel := context.WithTimeout(r.Context(), lasts)
	defer cancel()
	<-ctx.Done()
}

func setProfileType(header http.Header, debug int) {
	if debug > 0 {
		header.Set("Content-Type", "text/plain; charset=utf-8")
		return
	}
	header.Set("Content-Type", "application/octet-stream")
	header.Set("Content-Disposition", `attachment; filename="profile"`)
}

// numberOf reads a number from 1 to most; "" is fallback.
func numberOf(text string, fallback, most int) (int, error) {
	if text == "" {
		return fallback, nil
	}
	n, err := strconv.Atoi(text)
	if err == nil && (n < 1 || n > most) {
		err = strconv.ErrRange
	}
	return n, err
}
