package config

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Limits of a settings file. The parser's time grows with the square of the number of tokens, and
// its recursion with the depth.
const (
	maxFile   = 1 << 20
	maxTokens = 60_000
	maxNodes  = 100_000 // with aliases resolved
	maxDepth  = 32
)

type kind int

const (
	kindNull kind = iota
	kindText      // any scalar; the key decides its meaning
	kindMapping
	kindSequence
)

func (k kind) String() string {
	return [...]string{"nothing", "a single value", "a mapping of keys", "a list"}[k]
}

// node is a value of the document, of a variable or of a flag.
type node struct {
	kind      kind
	path      string
	line, col int // the position for faults: of the value, or of the key if the value is a mapping or list

	raw    string // of a scalar, as written in the document
	fields []field
	items  []*node

	// literal marks values of variables and flags: ${...} in them is not expanded.
	literal bool
	// hidden marks a node whose errors from other packages must not be shown, because they may
	// quote a secret or the value of a variable.
	hidden bool
	// missing marks a value that is not in the document.
	missing bool
}

type field struct {
	key       string
	line, col int
	value     *node
}

// parse turns a document into nodes. It stops at a syntax fault, and reports and skips duplicate
// keys and the like. It returns nil for an empty document.
func (l *loader) parse(data []byte) *node {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	for i, line := range bytes.Split(data, []byte("\n")) {
		if !utf8.Valid(line) {
			l.faults = append(l.faults, Fault{Line: i + 1, Col: 1, Message: "the line is not valid UTF-8"})
			return nil
		}
	}
	file, err := parseYAML(data)
	if err != nil {
		l.faults = append(l.faults, tabbed(data, *err))
		return nil
	}
	b := &builder{l: l, anchors: make(map[string]ast.Node), open: make(map[ast.Node]bool)}
	var root *node
	for _, doc := range file.Docs {
		if doc.Body == nil {
			continue
		}
		if root != nil {
			l.fault(at(doc.Body), "there is a second document; settings must be one document")
			break
		}
		if root = b.build(doc.Body, "", position{}); root.kind != kindMapping && root.kind != kindNull {
			l.fault(root, "settings must be a mapping of keys, but this is %s", root.kind)
			return nil
		}
	}
	return root
}

// tabbed returns fault, or the tab that indents a line, which YAML does not take: it is the likely cause.
func tabbed(data []byte, fault Fault) Fault {
	for i, line := range bytes.Split(data, []byte("\n")) {
		indent := line[:len(line)-len(bytes.TrimLeft(line, " \t"))]
		if at := bytes.IndexByte(indent, '\t'); at >= 0 && len(indent) < len(line) {
			return Fault{Line: i + 1, Col: at + 1, Message: "not valid YAML: a tab indents this line", Hint: "indent with spaces"}
		}
	}
	return fault
}

// quoted matches the quotes of the document in the parser's errors.
var quoted = regexp.MustCompile(`:? "(?:[^"\\]|\\.)*"`)

// parseYAML runs the parser within its limits, and removes quotes of the document from its errors.
func parseYAML(data []byte) (file *ast.File, fault *Fault) {
	tokens := lexer.Tokenize(string(data))
	if fault := checkTokens(tokens); fault != nil {
		return nil, fault
	}
	defer func() {
		if recover() != nil {
			file, fault = nil, &Fault{Message: "the file is not valid YAML"}
		}
	}()
	file, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err == nil {
		return file, nil
	}
	var syntax *yaml.SyntaxError
	if !errors.As(err, &syntax) || syntax.GetToken() == nil {
		return nil, &Fault{Message: "the file is not valid YAML"}
	}
	pos := syntax.GetToken().Position
	return nil, &Fault{
		Line: pos.Line, Col: max(pos.Column, 1),
		Message: "not valid YAML: " + quoted.ReplaceAllString(syntax.GetMessage(), ""),
	}
}

func checkTokens(tokens token.Tokens) *Fault {
	if len(tokens) > maxTokens {
		return &Fault{Message: fmt.Sprintf("the file has more than %d tokens", maxTokens)}
	}
	flow, compact, line := 0, 0, 0
	for _, tk := range tokens {
		if tk.Position.Line != line {
			compact, line = 0, tk.Position.Line
		}
		switch tk.Type {
		case token.MappingStartType, token.SequenceStartType:
			flow++
		case token.MappingEndType, token.SequenceEndType:
			flow--
		case token.SequenceEntryType, token.MappingKeyType, token.AnchorType, token.TagType:
			compact++
		}
		if flow > maxDepth || compact > maxDepth {
			return &Fault{Line: tk.Position.Line, Col: max(tk.Position.Column, 1), Message: fmt.Sprintf("nested more than %d deep", maxDepth)}
		}
	}
	return nil
}

type position struct{ line, col int }

func positionOf(n ast.Node) position {
	switch n := n.(type) {
	case *ast.MappingNode:
		if !n.IsFlowStyle && len(n.Values) > 0 {
			return positionOf(n.Values[0].Key)
		}
	case *ast.MappingValueNode:
		return positionOf(n.Key)
	}
	if tk := n.GetToken(); tk != nil && tk.Position != nil {
		return position{tk.Position.Line, max(tk.Position.Column, 1)}
	}
	return position{}
}

// at returns a node for faults at n.
func at(n ast.Node) *node {
	p := positionOf(n)
	return &node{line: p.line, col: p.col}
}

// builder resolves anchors, aliases and merges while it copies the syntax tree.
type builder struct {
	l       *loader
	anchors map[string]ast.Node
	open    map[ast.Node]bool // aliased values that are being copied
	count   int
	depth   int
	full    bool
}

// build copies n. key is the position of its key, which is used for faults of mappings and lists.
func (b *builder) build(n ast.Node, path string, key position) *node {
	p := positionOf(n)
	out := &node{path: path, line: p.line, col: p.col}
	b.count++
	b.depth++
	defer func() { b.depth-- }()
	if b.count > maxNodes || b.depth > maxDepth {
		if !b.full {
			b.l.fault(out, "the settings are too large: at most %d values, %d deep, with aliases resolved", maxNodes, maxDepth)
		}
		b.full = true
		return out
	}
	if !b.scalar(out, n) {
		switch n := n.(type) {
		case *ast.MappingNode:
			out.kind = kindMapping
			b.mapping(out, n.Values, key)
		case *ast.MappingValueNode:
			out.kind = kindMapping
			b.mapping(out, []*ast.MappingValueNode{n}, key)
		case *ast.SequenceNode:
			out.kind = kindSequence
			if key.line > 0 {
				out.line, out.col = key.line, key.col
			}
			for i, item := range n.Values {
				out.items = append(out.items, b.build(item, fmt.Sprintf("%s[%d]", path, i), position{}))
			}
		case *ast.AnchorNode:
			b.anchors[n.Name.GetToken().Value] = n.Value
			return b.build(n.Value, path, key)
		case *ast.AliasNode:
			return b.alias(out, n, key)
		case *ast.TagNode:
			return b.tagged(out, n, key)
		default:
			b.l.fault(out, "this kind of YAML is not supported here")
		}
	}
	return out
}

// scalar fills out if n is a single value. It keeps the text as written: the key decides what 010
// or yes means.
func (b *builder) scalar(out *node, n ast.Node) bool {
	switch n := n.(type) {
	case *ast.NullNode:
		out.kind = kindNull
	case *ast.StringNode:
		out.kind, out.raw = kindText, n.Value
	case *ast.LiteralNode:
		out.kind, out.raw = kindText, n.Value.Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		out.kind, out.raw = kindText, n.GetToken().Value
	default:
		return false
	}
	return true
}

func (b *builder) mapping(out *node, values []*ast.MappingValueNode, key position) {
	if key.line > 0 {
		out.line, out.col = key.line, key.col
	}
	var merges []*node
	seen := make(map[string]position)
	for _, v := range values {
		p := positionOf(v.Key)
		if v.Key.IsMergeKey() {
			merges = append(merges, b.build(v.Value, out.path, position{}))
			continue
		}
		name := &node{}
		if keyNode, ok := v.Key.(ast.Node); !ok || !b.scalar(name, keyNode) || name.kind != kindText {
			b.l.fault(&node{path: out.path, line: p.line, col: p.col}, "a key must be a single word")
			continue
		}
		path := joinPath(out.path, name.raw)
		if first, ok := seen[name.raw]; ok {
			b.l.fault(&node{path: path, line: p.line, col: p.col}, "the key is a duplicate; the first one is in line %d", first.line)
			continue
		}
		seen[name.raw] = p
		out.fields = append(out.fields, field{name.raw, p.line, p.col, b.build(v.Value, path, p)})
	}
	for _, m := range merges {
		b.merge(out, m, seen)
	}
}

// merge adds the fields of m, or of the mappings in m, that are missing in out.
func (b *builder) merge(out, m *node, seen map[string]position) {
	switch m.kind {
	case kindMapping:
		for _, f := range m.fields {
			if _, ok := seen[f.key]; !ok {
				seen[f.key] = position{f.line, f.col}
				out.fields = append(out.fields, f)
			}
		}
	case kindSequence:
		for _, item := range m.items {
			b.merge(out, item, seen)
		}
	default:
		b.l.fault(m, "<< needs an alias of a mapping")
	}
}

func (b *builder) alias(out *node, n *ast.AliasNode, key position) *node {
	name := n.Value.GetToken().Value
	target, ok := b.anchors[name]
	switch {
	case !ok:
		b.l.fault(out, "there is no anchor &%s above this alias", name)
		return out
	case b.open[target]:
		b.l.fault(out, "the alias *%s is inside its own anchor", name)
		return out
	}
	b.open[target] = true
	defer delete(b.open, target)
	return b.build(target, out.path, key)
}

func (b *builder) tagged(out *node, n *ast.TagNode, key position) *node {
	switch n.Start.Value {
	case "!!str", "!!int", "!!float", "!!bool", "!!map", "!!seq":
		return b.build(n.Value, out.path, key)
	}
	b.l.fault(out, "YAML tags are not supported here")
	return out
}

func joinPath(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}
