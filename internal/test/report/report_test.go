package report

import "testing"

func TestReplace(t *testing.T) {
	t.Parallel()
	const page = "a\n<!-- x: written by make y -->\nold\n<!-- end of x -->\nb\n<!-- z: written by make y -->\n<!-- end of z -->\n"
	got, err := replace([]byte(page), "x", "y", "new\n")
	if want := "a\n<!-- x: written by make y -->\n\nnew\n\n<!-- end of x -->\nb\n<!-- z: written by make y -->\n<!-- end of z -->\n"; err != nil || string(got) != want {
		t.Errorf("%q, error %v, want %q", got, err, want)
	}
	for _, faulty := range []string{"", "<!-- x: written by make y -->\n", "<!-- end of x -->\n<!-- x: written by make y -->\n"} {
		if got, err := replace([]byte(faulty), "x", "y", "new"); err == nil {
			t.Errorf("%q became %q, want an error", faulty, got)
		}
	}
}
