package locate

// First returns the locations of the first alternative, in order.
func (e *Expr) First() []Ref {
	var refs []Ref
	for _, l := range e.alts[0] {
		refs = append(refs, l.Ref)
	}
	return refs
}

// Every is the step into every element of an array.
const Every = "[]"

// Steps returns the steps of the path: keys, array indexes in decimal digits, and Every.
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
