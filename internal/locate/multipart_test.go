package locate

import (
	"crypto/sha256"
	"fmt"
	"mime/multipart"
	"strings"
	"testing"
)

// parts returns a body in multipart/form-data. Each part is its Content-Disposition and its value.
func parts(all ...[2]string) string {
	var b strings.Builder
	for _, p := range all {
		b.WriteString("--b0\r\nContent-Disposition: " + p[0] + "\r\n\r\n" + p[1] + "\r\n")
	}
	return b.String() + "--b0--\r\n"
}

// TestMultipart reads fields of a body in multipart/form-data.
func TestMultipart(t *testing.T) {
	t.Parallel()
	id := [2]string{`form-data; name="id"`, "a b+c"}
	file := [2]string{`form-data; name="attachment-1"; filename="a.txt"`, "id=x\r\n--b1\r\n\x00\xff"}
	many := strings.Repeat("--b0\r\nContent-Disposition: form-data; name=x\r\n\r\n\r\n", maxFormParts)
	for _, c := range []struct{ name, at, want, body string }{
		{"a field", "form:id", "a b+c", parts(id)},
		{"a file behind", "form:id", "a b+c", parts(id, file)},
		{"a file in front", "form:id", "a b+c", parts(file, id)},
		{"a line break before", "form:id", "a b+c", "\r\n" + parts(id)},
		{"another boundary", "form:id", "a b+c", strings.ReplaceAll(parts(id), "--b0", "------WebKitFormBoundary7MA4YWxkTrZu0gW")},
		{"a type of its own", "form:id", "a", parts([2]string{"form-data; name=id\r\nContent-Type: text/plain; charset=utf-8", "a"})},
		{"JSON in a field", "sha256:form:json", fmt.Sprintf("%x", sha256.Sum256([]byte(`{"a":1}`))), parts([2]string{`form-data; name="json"`, `{"a":1}`})},
		{"a name in UTF-8", "form:größe", "a", parts([2]string{`form-data; name="größe"`, "a"})},
		{"a name with brackets", "form:event[id]", "a", parts([2]string{`form-data; name="event[id]"`, "a"})},
		{"the alternative", "form:no | form:id", "a b+c", parts(id)},
		{"no such field", "form:id", "absent", parts(file)},
		{"twice", "form:id", "malformed", parts(id, id)},
		{"a file of that name", "form:attachment-1", "malformed", parts(file)},
		{"a file of that name, too", "form:id", "malformed", parts(id, [2]string{`form-data; name="id"; filename=""`, "a"})},
		{"a name of its own extension", "form:id", "malformed", parts([2]string{`form-data; name="x"; name*=utf-8''id`, "a"})},
		{"two names", "form:id", "malformed", parts([2]string{`form-data; name="id"; name="x"`, "a"})},
		{"two headers", "form:id", "malformed", parts([2]string{"form-data; name=id\r\nContent-Disposition: form-data; name=x", "a"})},
		{"a part without a name", "form:id", "malformed", parts(id, [2]string{"form-data", "a"})},
		{"no form data", "form:id", "malformed", parts([2]string{`attachment; name="id"`, "a"})},
		{"cut off behind a part", "form:id", "malformed", strings.TrimSuffix(parts(id, file), "--b0--\r\n")},
		{"cut off in a part", "form:id", "malformed", parts(id, file)[:150]},
		{"an empty field", "form:id", "malformed", parts([2]string{`form-data; name="id"`, ""})},
		{"a line break in an id", "form:id", "malformed", parts([2]string{`form-data; name="id"`, "a\r\nb"})},
		{"the most parts", "form:id", "absent", many + "--b0--"},
		{"too many parts", "form:id", "malformed", many + parts(id)},
		{"too long a field", "sha256:form:id", "malformed", parts([2]string{`form-data; name="id"`, strings.Repeat("a", maxFormField+1)})},
		{"dashes in a form", "form:--id", "a", "--id=a&b=c"},
		{"a query is never multipart", "query:id", "absent", parts(id)},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			value, err := mustParse(t, c.at).Eval(&Input{Body: []byte(c.body), RawQuery: c.body})
			wantValue(t, value, err, c.want)
		})
	}
}

// FuzzMultipart compares the fields with those of net/http's reader.
func FuzzMultipart(f *testing.F) {
	f.Add(parts([2]string{`form-data; name="id"`, "a"}, [2]string{`form-data; name="f"; filename="x"`, "b"}), "id")
	f.Add("--b\r\nContent-Disposition: form-data; name=id\r\n\r\n--b--", "id")
	f.Fuzz(func(t *testing.T, body, name string) {
		value, found, err := MultipartField([]byte(body), name)
		if !IsMultipart([]byte(body)) || err != nil || found != 1 || name == "" {
			return
		}
		form, err := multipart.NewReader(strings.NewReader(body), boundary([]byte(body))).ReadForm(1 << 20)
		if err != nil || len(form.Value[name]) != 1 {
			t.Fatalf("got %q, where net/http has %v, %v", value, form, err)
		}
	})
}
