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
	// maxProfile leaves time for the answer on a server with a WriteTimeout of a minute.
	maxProfile = 50 * time.Second
)

var profileParameters = []string{"seconds", "debug"}

// profiling allows one CPU profile or trace at a time: the runtime has only one of each.
var profiling sync.Mutex

// showProfile serves the profiles of net/http/pprof. It does not import that package, because the
// import opens the profiles on http.DefaultServeMux, which may be public. It omits the command line
// of the process, which may hold secrets.
func (h *handling) showProfile(w http.ResponseWriter, r *http.Request) {
	values, ok := h.query(w, r)
	if !ok {
		return
	}
	if err := checkParameters(values, profileParameters); err != nil {
		h.fail(w, r, http.StatusBadRequest, err.Error(), nil)
		return
	}
	seconds, err := numberOf(values.Get("seconds"), int(defaultProfile/time.Second), int(maxProfile/time.Second))
	if err != nil {
		h.fail(w, r, http.StatusBadRequest, fmt.Sprintf("The parameter seconds must be from 1 to %d.", maxProfile/time.Second), nil)
		return
	}
	debug, err := numberOf(values.Get("debug"), 0, 2)
	if err != nil {
		h.fail(w, r, http.StatusBadRequest, "The parameter debug must be 1 or 2. Without it, the answer is for \"go tool pprof\".", nil)
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
		h.fail(w, r, http.StatusNotFound, "There is no such profile. There are profile, trace, allocs, block, goroutine, heap, mutex and threadcreate.", nil)
		return
	}
	if name == "heap" {
		runtime.GC() // otherwise it shows the state at the last collection
	}
	setProfileType(w.Header(), debug)
	_ = profile.WriteTo(w, debug) // fails when the client has gone
}

// record records between start and stop, for the given time or until the caller hangs up.
func (h *handling) record(w http.ResponseWriter, r *http.Request, lasts time.Duration, start func() error, stop func()) {
	const busy = "Another profile is being recorded. Try again when it has ended."
	if !profiling.TryLock() {
		h.fail(w, r, http.StatusConflict, busy, nil)
		return
	}
	defer profiling.Unlock()
	setProfileType(w.Header(), 0)
	if err := start(); err != nil {
		// The program around this handler may be profiling itself.
		h.fail(w, r, http.StatusConflict, busy, err)
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

// numberOf reads a number from 1 to most; "" returns fallback.
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
