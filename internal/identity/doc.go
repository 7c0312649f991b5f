// Package identity knows who asks, and what they may.
//
// The order of events: a [Door] looks at a request's key or client certificate
// and finds an [Identity] in the [Set] that the auth file says; the identity
// says what it may do, and for which dependencies, and lets in no more than its
// limits. [Live] keeps the file in force and reads it again when it changes;
// [Certificates] does the same for the files of TLS. What is answered to those
// who may not is decided in package handlers.
//
// It is a package of its own, beside the drawing of the house, because both the
// public and the admin listener ask it, and because neither secrets nor the
// handling of them belong among the handlers. A key is in a file, a log or a
// message never: what is kept of it is its SHA-256, and a mistake in the file is
// told by its place, without the line that it stands in.
package identity
