package locate

// First returns the single locations of the first alternative, in order.
func (e *Expr) First() []Ref {
	var refs []Ref
	for _, l := range e.alts[0] {
		refs = append(refs, l.Ref)
	}
	return refs
}

// Every stands among the steps of a path for every element of an array.
const Every = "[]"

// Steps returns the way that the path goes: keys, array indexes in decimal digits,
// and Every.
func (p Path) Steps() []string {
	var steps []string
	for _, s := range p.segs {
		steps = append(steps, s.key)
	}
	if p.rest != nil {
		steps = append(append(steps, Every), p.rest.Steps()...)
	}
	return steps
}
