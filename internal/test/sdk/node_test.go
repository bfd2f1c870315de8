package sdk

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"github.com/hookonce/hookonce/internal/test/sdk/providers"
)

// node is the process that runs the SDKs of npm; see npm/main.mjs.
type node struct {
	mu    sync.Mutex
	in    io.WriteCloser
	out   *bufio.Reader
	cmd   *exec.Cmd
	log   bytes.Buffer // all output of the SDKs
	calls int
}

// command is one line to the process.
type command struct {
	ID      int                `json:"id"`
	Op      string             `json:"op"`
	Subject string             `json:"subject,omitempty"`
	Request *providers.Request `json:"request,omitempty"`
	Key     *providers.Key     `json:"key,omitempty"`
}

// reply is one line from the process.
type reply struct {
	ID      int             `json:"id"`
	Result  json.RawMessage `json:"result"`
	Refused string          `json:"refused"`
	Fault   string          `json:"fault"`
}

// errFault is a failure of the guard itself, not of a request.
var errFault = errors.New("the SDK could not be asked")

func startNode() (*node, error) {
	cmd := exec.Command("node", "--no-warnings", "main.mjs")
	cmd.Dir = "npm"
	n := &node{cmd: cmd}
	cmd.Stderr = &n.log
	if _, err := os.Stat(filepath.Join(cmd.Dir, "node_modules")); err != nil {
		return nil, errors.New("the SDKs are not installed; run internal/test/sdk/setup")
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	n.in, n.out = in, bufio.NewReader(out)
	return n, cmd.Start()
}

// stop ends the process and returns the output of the SDKs.
func (n *node) stop() (log string, err error) {
	_ = n.in.Close()
	err = n.cmd.Wait()
	return n.log.String(), err
}

// call runs one operation and decodes its result into result, unless that is nil. The error is that
// of the SDK if it refuses the request; it matches errFault if the SDK could not be asked.
func (n *node) call(c *command, result any) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.calls++
	c.ID = n.calls
	line, err := json.Marshal(c)
	if err != nil {
		return err
	}
	if _, err := n.in.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("%w: %w", errFault, err)
	}
	answer, err := n.out.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("%w: node has ended: %w", errFault, err)
	}
	var r reply
	if err := json.Unmarshal(answer, &r); err != nil || r.ID != c.ID {
		return fmt.Errorf("%w: an unexpected line %.200q: %w", errFault, answer, err)
	}
	switch {
	case r.Fault != "":
		return fmt.Errorf("%w: %s", errFault, r.Fault)
	case r.Refused != "":
		return errors.New(r.Refused)
	case result == nil:
		return nil
	}
	return json.Unmarshal(r.Result, result)
}

// subjects returns the subjects of npm. Their functions call the process.
func (n *node) subjects() ([]*providers.Subject, error) {
	var list []*struct {
		providers.Subject
		Handle   string `json:"handle"`
		Reads    bool   `json:"reads"`
		Signs    bool   `json:"signs"`
		Vectors  bool   `json:"vectors"`
		Recorded bool   `json:"recorded"`
	}
	if err := n.call(&command{Op: "list"}, &list); err != nil {
		return nil, err
	}
	subjects := make([]*providers.Subject, 0, len(list))
	for _, l := range list {
		s := &l.Subject
		s.Verify = func(r *providers.Request, key *providers.Key) error {
			return n.call(&command{Op: "verify", Subject: l.Handle, Request: r, Key: key}, nil)
		}
		if l.Reads {
			s.Read = func(r *providers.Request, key *providers.Key) error {
				return n.call(&command{Op: "read", Subject: l.Handle, Request: r, Key: key}, nil)
			}
		}
		if l.Signs {
			s.Sign = func(r *providers.Request, key *providers.Key) error {
				var signed providers.Request // not r: decoding into its map would keep removed headers
				err := n.call(&command{Op: "sign", Subject: l.Handle, Request: r, Key: key}, &signed)
				if err == nil {
					*r = signed
				}
				return err
			}
		}
		saved := func(op string) func() (all []providers.Saved, err error) {
			return func() (all []providers.Saved, err error) {
				err = n.call(&command{Op: op, Subject: l.Handle}, &all)
				return all, err
			}
		}
		if l.Vectors {
			s.Vectors = saved("vectors")
		}
		if l.Recorded {
			s.Recorded = saved("recorded")
		}
		subjects = append(subjects, s)
	}
	return subjects, nil
}
