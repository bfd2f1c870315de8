// Package packaging builds a release of this system, installs its packages on a bare Debian, and runs its image.
package packaging
