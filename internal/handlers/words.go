package handlers

const nameRule = "must be 1 to 128 characters of A-Z a-z 0-9 . _ : / - that begin with a letter or digit"

// validName says whether it can name a dependency or a caller.
func validName[T string | []byte](name T) bool {
	if len(name) == 0 || len(name) > 128 || !alphanumeric(name[0]) {
		return false
	}
	for i := range len(name) {
		switch c := name[i]; {
		case alphanumeric(c), c == '.', c == '_', c == ':', c == '/', c == '-':
		default:
			return false
		}
	}
	return true
}

// validID says whether it can be a decision_id or a report_id.
func validID(id []byte) bool {
	if len(id) == 0 || len(id) > 64 {
		return false
	}
	for _, c := range id {
		if !alphanumeric(c) && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

// validToken says whether it is a token (RFC 9110 §5.6.2), as a method is.
func validToken(token []byte) bool {
	for _, c := range token {
		switch {
		case alphanumeric(c):
		case c == '!', c >= '#' && c <= '\'', c == '*', c == '+', c == '-', c == '.', c == '^', c == '_', c == '`', c == '|', c == '~':
		default:
			return false
		}
	}
	return len(token) > 0
}

func alphanumeric(c byte) bool {
	return c >= '0' && c <= '9' || lower(c) >= 'a' && lower(c) <= 'z'
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c | 0x20
	}
	return c
}

// equalFoldASCII compares names of headers, which are ASCII: a Kelvin sign is no k.
func equalFoldASCII(a, b []byte) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if lower(a[i]) != lower(b[i]) {
			return false
		}
	}
	return true
}
