package demo

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// startTimeout bounds the start of a process, until it listens. The gateway waits 30 s for a database.
const startTimeout = 45 * time.Second

// ready is the line that a process prints when it listens. The log of the gateway has both members, on
// two lines.
type ready struct {
	Listen string `json:"listen,omitempty"`
	Admin  string `json:"admin,omitempty"`
}

// serve answers requests on a free port until ctx ends, and prints the address to out.
func serve(ctx context.Context, handler http.Handler, out io.Writer) error {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	if err := json.NewEncoder(out).Encode(ready{Listen: ln.Addr().String()}); err != nil {
		return errors.Join(err, ln.Close())
	}
	if err := server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// process is a program of the demo. It is killed and started again while others use it.
type process struct {
	name     string
	hasAdmin bool             // it prints the address of an admin listener too
	command  func() *exec.Cmd // a new one for each start
	died     func(error)      // is told of an end that the demo did not cause

	at    atomic.Pointer[ready]
	mu    sync.Mutex // guards the fields below, and starts
	child *child
	kills int // runs that were killed, as the system reports them
}

// child is one run of a process.
type child struct {
	cmd     *exec.Cmd
	pipe    io.ReadCloser // its output
	exited  chan struct{}
	ready   chan struct{}
	ended   atomic.Bool            // by the demo
	lastLog atomic.Pointer[string] // the lines that are no log
}

// start starts the process and waits until it listens.
func (p *process) start(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	c := &child{cmd: p.command(), exited: make(chan struct{}), ready: make(chan struct{})}
	isolate(c.cmd)
	output, err := c.cmd.StderrPipe()
	if err != nil {
		return err
	}
	c.cmd.Stdout = c.cmd.Stderr
	c.pipe = output
	if err := startBound(c.cmd); err != nil {
		return fmt.Errorf("starting the %s: %w", p.name, err)
	}
	p.child = c
	go p.follow(c)
	select {
	case <-c.ready:
		return nil
	case <-c.exited:
		return c.failure(p.name)
	case <-time.After(startTimeout):
		return fmt.Errorf("the %s does not listen after %s: %s", p.name, startTimeout, c.last())
	case <-ctx.Done():
		return ctx.Err()
	}
}

// follow reads the output of a run to its end.
func (p *process) follow(c *child) {
	var found ready
	for lines := bufio.NewScanner(c.pipe); lines.Scan(); {
		text := lines.Text()
		var line ready
		if json.Unmarshal([]byte(text), &line) != nil {
			if before := c.lastLog.Load(); before != nil {
				text = *before + "\n" + text
			}
			c.lastLog.Store(&text) // it says why the process ends
			continue
		}
		before := found
		if line.Listen != "" {
			found.Listen = line.Listen
		}
		if line.Admin != "" {
			found.Admin = line.Admin
		}
		if found != before && found.Listen != "" && (found.Admin != "" || !p.hasAdmin) {
			p.at.Store(&found)
			close(c.ready)
		}
	}
	_ = c.cmd.Wait() // ProcessState holds the result
	if !c.ended.Load() {
		p.died(c.failure(p.name))
	}
	close(c.exited)
}

// last returns the reason that a process printed at its end.
func (c *child) last() string {
	if text := c.lastLog.Load(); text != nil {
		return strings.TrimPrefix(*text, "Error: ")
	}
	return "it printed no reason"
}

func (c *child) failure(name string) error {
	return fmt.Errorf("the %s ended with %s: %s", name, c.cmd.ProcessState, c.last())
}

// kill ends the process without warning, as kill -9 does, and waits until it is gone.
func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.child
	if c == nil {
		return
	}
	c.ended.Store(true)
	_ = c.cmd.Process.Kill() // it may have ended
	<-c.exited
	if !c.cmd.ProcessState.Success() {
		p.kills++
	}
	p.child = nil
}

// restart kills the process and starts it again. It returns how long the process was away.
func (p *process) restart(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	p.kill()
	err := p.start(ctx)
	return time.Since(began), err
}

// address returns where the process listens.
func (p *process) address() string { return p.at.Load().Listen }
