// Package schema has the entities of the test: an invoice and its lines.
package schema

import (
	"entgo.io/ent"
	"entgo.io/ent/schema/edge"
	"entgo.io/ent/schema/field"
)

// Invoice is an invoice.
type Invoice struct{ ent.Schema }

// Fields are the columns.
func (Invoice) Fields() []ent.Field {
	return []ent.Field{field.String("id"), field.Int64("amount")}
}

// Edges are the lines.
func (Invoice) Edges() []ent.Edge { return []ent.Edge{edge.To("lines", Line.Type)} }

// Line is a line of an invoice.
type Line struct{ ent.Schema }

// Fields are the columns.
func (Line) Fields() []ent.Field { return []ent.Field{field.String("id")} }
