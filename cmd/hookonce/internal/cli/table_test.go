package cli

import "testing"

// Ids that differ at their end stay different.
func TestSnipMiddle(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		cell  string
		width int
		want  string
	}{
		{"evt_1", 12, "evt_1"},
		{"evt_pvch7bepi7pq7tgd5x3qtzrzi4_1", 12, "evt_pvc…i4_1"},
		{"evt_pvch7bepi7pq7tgd5x3qtzrzi4_2", 12, "evt_pvc…i4_2"},
		{"evt_pvch", 4, "evt…"},
		{"世界世界世界", 7, "世界世…"},
	} {
		if got := snipMiddle(c.cell, c.width); got != c.want {
			t.Errorf("%q in %d columns is %q, want %q", c.cell, c.width, got, c.want)
		}
	}
}
