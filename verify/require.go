package verify

import (
	"bytes"
	"crypto/subtle"
	"fmt"
	"slices"

	"github.com/hookonce/hookonce/internal/locate"
)

// requirement is a compiled Requirement.
type requirement struct {
	at     *place
	equals []part
	each   *locate.Batch // nil if it is not required per item
}

// required returns an error unless the request meets all requirements.
func required(list []requirement, req *Request, s *signed) error {
	for i := range list {
		r := &list[i]
		want, err := render(r.equals, req, s)
		if err != nil {
			return err
		}
		items := [][]byte{s.item}
		if r.each != nil {
			if items, err = r.items(req); err != nil {
				return err
			}
		}
		for _, item := range items {
			if err := r.holds(req, item, want); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *requirement) holds(req *Request, item, want []byte) error {
	got, err := r.at.read(req, item)
	if err != nil {
		return err
	}
	if subtle.ConstantTimeCompare([]byte(got), want) != 1 {
		return fmt.Errorf("%w: %s differs from the value that the scheme requires", ErrMismatch, r.at.ref)
	}
	return nil
}

// items returns the items that must all meet the requirement. It fails if there are none.
func (r *requirement) items(req *Request) ([][]byte, error) {
	found, err := r.each.Items(req.Body, false)
	if err != nil || len(found) == 0 {
		return nil, fmt.Errorf("%w: the body has no items", ErrMalformed)
	}
	items := make([][]byte, len(found))
	for i := range found {
		if found[i].Err != nil {
			return nil, fmt.Errorf("%w: the body has an item that cannot be read", ErrMalformed)
		}
		items[i] = found[i].Raw
	}
	return items, nil
}

// fulfil changes the request so that it meets the requirements, where that is possible.
func fulfil(list []requirement, req *Request, s *signed) error {
	for i := range list {
		r := &list[i]
		want, err := render(r.equals, req, s)
		if err != nil {
			return err
		}
		if r.each != nil {
			err = r.fulfilEach(req, want)
		} else if r.holds(req, s.item, want) != nil {
			s.item, err = r.at.write(req, s.item, string(want))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// fulfilEach changes the items of the body, which is one item or an array of them.
func (r *requirement) fulfilEach(req *Request, want []byte) error {
	items, err := r.items(req)
	if err != nil {
		return err
	}
	changed := false
	for i, item := range items {
		if r.holds(req, item, want) == nil {
			continue
		}
		changed = true
		if items[i], err = r.at.write(req, item, string(want)); err != nil {
			return err
		}
	}
	switch body := bytes.TrimSpace(req.Body); {
	case !changed:
	case body[0] == '[':
		req.Body = append(append([]byte{'['}, bytes.Join(items, []byte{','})...), ']')
	case len(items) == 1 && body[0] == '{':
		req.Body = items[0]
	default:
		return fmt.Errorf("%s cannot be set", r.at.ref)
	}
	return nil
}

// requireURL reports whether a requirement needs the public URL.
func requireURL(list []requirement) bool {
	return slices.ContainsFunc(list, func(r requirement) bool { return anyPart(r.equals, (*part).needsURL) })
}
