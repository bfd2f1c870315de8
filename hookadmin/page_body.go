package hookadmin

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/hookonce/hookonce/internal/say"
)

// The ways to show a body, as the parameter "body" names them.
const (
	bodyPretty = "pretty"
	bodyRaw    = "raw"
	bodyHex    = "hex"
)

// Bounds of a body on a page. The download has all of it.
const (
	maxShownText  = 256 << 10 // bytes
	maxShownHex   = 64 << 10  // bytes
	maxShownNodes = 2000      // values of a JSON body
	maxShownDepth = 64
	maxShownPairs = 500
)

// bodyView is a body on a page. At most one of Tree, Pairs and Text is set.
type bodyView struct {
	Mode  string // bodyPretty, bodyRaw or bodyHex
	Size  string
	Tree  *jsonNode  // pretty, for JSON
	Pairs []bodyPair // pretty, for a form
	Text  string     // raw, or a hex dump
	Note  string     // the reason why another mode is shown than asked for, or ""
	Cut   string     // the part that is missing, or ""
}

// answerOf returns the view of the answer to an attempt; nil if none is kept.
func answerOf(a *Attempt) *bodyView {
	raw := bytesOf(a.Response, a.ResponseBase64)
	if len(raw) == 0 {
		return nil
	}
	return newSample(raw, int64(len(raw)))
}

// bodyPair is a field of a form.
type bodyPair struct{ Name, Value string }

// newBodyView returns the view of raw in the mode that was asked for; "" is bodyPretty.
func newBodyView(raw []byte, contentType, mode string) *bodyView {
	v := &bodyView{Mode: mode, Size: sizeInWords(int64(len(raw)))}
	if v.Mode == "" {
		v.Mode = bodyPretty
	}
	if v.Mode == bodyPretty {
		if v.showPretty(raw, contentType) {
			return v
		}
		v.Mode = bodyRaw
	}
	if v.Mode == bodyRaw && !utf8.Valid(raw) {
		v.Mode, v.Note = bodyHex, "The body is not text in UTF-8."
	}
	if v.Mode == bodyHex {
		v.Text = hex.Dump(v.cut(raw, maxShownHex))
		return v
	}
	v.Text = visibleLines(string(v.cut(raw, maxShownText)))
	return v
}

func (v *bodyView) cut(raw []byte, most int) []byte {
	if len(raw) <= most {
		return raw
	}
	v.Cut = "These are the first " + sizeInWords(int64(most)) + " of " + v.Size + ". The download has all of it."
	raw = raw[:most]
	for range utf8.UTFMax - 1 {
		if last, size := utf8.DecodeLastRune(raw); last != utf8.RuneError || size != 1 {
			break
		}
		raw = raw[:len(raw)-1]
	}
	return raw
}

// showPretty reports whether it found a better form than the raw body.
func (v *bodyView) showPretty(raw []byte, contentType string) bool {
	if kind, _, err := mime.ParseMediaType(contentType); err == nil && kind == "application/x-www-form-urlencoded" {
		v.Pairs = formPairs(raw)
		return v.Pairs != nil
	}
	if len(raw) > maxShownText {
		v.Note = "The body is too long to be shown as a tree."
		return false
	}
	tree, err := parseTree(raw)
	switch {
	case errors.Is(err, errTooMuch):
		v.Note = "The body has too many values, or is nested too deeply, to be shown as a tree."
	case err == nil:
		v.Tree = tree
	}
	return err == nil
}

// formPairs returns the fields of a form in their order, or nil if raw is not a form.
func formPairs(raw []byte) []bodyPair {
	if len(raw) > maxShownText || bytes.Count(raw, []byte("&")) >= maxShownPairs {
		return nil
	}
	var pairs []bodyPair
	for field := range strings.SplitSeq(string(raw), "&") {
		name, value, _ := strings.Cut(field, "=")
		name, err := url.QueryUnescape(name)
		if err != nil {
			return nil
		}
		if value, err = url.QueryUnescape(value); err != nil {
			return nil
		}
		pairs = append(pairs, bodyPair{visible(name), visibleLines(value)})
	}
	return pairs
}

// jsonNode is a value of a JSON body. Keys and scalars are shown as the body spells them, so that
// large numbers stay exact.
type jsonNode struct {
	Key         string // with its quotes; "" for an element of a list, and for the whole body
	Kind        string // string, number, word, object or list
	Text        string // of a scalar
	Open, Close string // brackets of an object or a list
	Count       string // "3 keys"
	Children    []jsonNode
	Folded      bool // shown closed at first
}

var errTooMuch = errors.New("too many values, or nested too deeply")

// treeReader reads a tree. Positions come from dec, texts from raw.
type treeReader struct {
	raw   []byte
	dec   *json.Decoder
	at    int64 // end of the last token
	nodes int
}

// unmarked returns a body without a byte order mark in front, which encoding/json refuses.
func unmarked(raw []byte) []byte { return bytes.TrimPrefix(raw, []byte("\ufeff")) }

// parseTree reads a body that is one JSON value.
func parseTree(raw []byte) (*jsonNode, error) {
	raw = unmarked(raw)
	if !utf8.Valid(raw) || !json.Valid(raw) {
		return nil, errors.New("not JSON")
	}
	t := &treeReader{raw: raw, dec: json.NewDecoder(bytes.NewReader(raw))}
	t.dec.UseNumber()
	node, err := t.value(0)
	if err != nil {
		return nil, err
	}
	if _, err := t.dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one JSON value")
	}
	return node, nil
}

// token returns the next token and its text in the body.
func (t *treeReader) token() (json.Token, string, error) {
	token, err := t.dec.Token()
	if err != nil {
		return nil, "", err
	}
	end := t.dec.InputOffset()
	spelled := strings.TrimLeft(string(t.raw[t.at:end]), " \t\r\n,:")
	t.at = end
	return token, visible(spelled), nil
}

func (t *treeReader) value(depth int) (*jsonNode, error) {
	if t.nodes++; t.nodes > maxShownNodes || depth > maxShownDepth {
		return nil, errTooMuch
	}
	token, spelled, err := t.token()
	if err != nil {
		return nil, err
	}
	switch token := token.(type) {
	case json.Delim:
		return t.children(token, depth)
	case string:
		return &jsonNode{Kind: "string", Text: spelled}, nil
	case json.Number:
		return &jsonNode{Kind: "number", Text: spelled}, nil
	}
	return &jsonNode{Kind: "word", Text: spelled}, nil
}

// children reads the rest of an object or a list.
func (t *treeReader) children(open json.Delim, depth int) (*jsonNode, error) {
	node := &jsonNode{Kind: "list", Open: "[", Close: "]"}
	if open == '{' {
		node.Kind, node.Open, node.Close = "object", "{", "}"
	}
	for t.dec.More() {
		key := ""
		if open == '{' {
			var err error
			if _, key, err = t.token(); err != nil {
				return nil, err
			}
		}
		child, err := t.value(depth + 1)
		if err != nil {
			return nil, err
		}
		child.Key = key
		node.Children = append(node.Children, *child)
	}
	_, _, err := t.token()
	thing := "item"
	if open == '{' {
		thing = "key"
	}
	node.Count = say.Count(len(node.Children), thing)
	node.Folded = depth > 0 && len(node.Children) > 50 || depth > 8
	return node, err
}
