package probe

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// oddMember is a member of valid JSON that programs rewrite when they parse it.
const oddMember = `"zz_probe" : { "large" : 12345678901234567890 , "float" : 1.0, "exponent":1E2 , "text" : "\u00e9 é \/ <&> \ud83d\ude00" }`

// reformat writes a JSON document with the same values in unusual, valid JSON: members in reverse
// order, spaces, line breaks, an escaped letter in every text, and one more member.
func reformat(body []byte) ([]byte, bool) {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	var doc any
	if dec.Decode(&doc) != nil {
		return nil, false
	}
	var out bytes.Buffer
	writeOddly(&out, doc)
	return addMember(out.Bytes(), oddMember)
}

func writeOddly(out *bytes.Buffer, node any) {
	switch node := node.(type) {
	case map[string]any:
		out.WriteByte('{')
		for i, name := range slices.Backward(slices.Sorted(maps.Keys(node))) {
			out.WriteString(quoted(name) + " :\t")
			writeOddly(out, node[name])
			if i > 0 {
				out.WriteString(" ,\n  ")
			}
		}
		out.WriteString("\n}")
	case []any:
		out.WriteString("[ ")
		for i, element := range node {
			if i > 0 {
				out.WriteString(" , ")
			}
			writeOddly(out, element)
		}
		out.WriteByte(']')
	case string:
		out.WriteString(escapedFirst(node))
	case nil:
		out.WriteString("null")
	default:
		fmt.Fprint(out, node) // a number as it was written, or a bool
	}
}

func quoted(text string) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(text) // a text can always be encoded
	return strings.TrimSuffix(b.String(), "\n")
}

// escapedFirst quotes a text with its first letter escaped.
func escapedFirst(text string) string {
	if text == "" || text[0] >= utf8.RuneSelf {
		return quoted(text)
	}
	return fmt.Sprintf(`"\u%04x`, text[0]) + quoted(text[1:])[1:]
}

// addMember adds a member to the last object of a JSON document, as its last one.
func addMember(body []byte, member string) ([]byte, bool) {
	end := bytes.LastIndexByte(body, '}')
	if end < 0 {
		return nil, false
	}
	head := bytes.TrimRight(body[:end], " \t\r\n")
	comma := ","
	if bytes.HasSuffix(head, []byte{'{'}) {
		comma = ""
	}
	return fmt.Appendf(nil, "%s%s%s%s", head, comma, member, body[end:]), true
}

// truncated cuts a document off in the middle.
func truncated(body []byte) ([]byte, bool) { return body[:len(body)*2/3], len(body) >= 3 }
