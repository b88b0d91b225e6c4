// Package auth knows users and their passwords. It has no wire and no store: who
// connects is told apart by a [Users], which is read from a file of one user a line,
// as "htpasswd -nB NAME" prints it:
//
//	name:$2y$10$...                            bcrypt
//	name:$argon2id$v=19$m=65536,t=3,p=4$...$...  argon2id, in the form of its reference
//
// Lines that are empty or begin with # say nothing. Passwords themselves never stand
// in a file. A Users may be used by any number of goroutines.
package auth
