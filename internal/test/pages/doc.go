// Package pages runs the code blocks of the README and of docs/, so that every command, setting and
// program that a reader copies works as printed.
package pages
