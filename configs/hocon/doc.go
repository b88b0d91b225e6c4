// Package hocon reads HOCON, the configuration format of JVM programs, as far
// as files of settings use it: objects with nested and dotted keys, arrays,
// quoted, unquoted and triple-quoted strings, comments, concatenation, merging,
// +=, substitutions (${x}, ${?x}, with the environment as a last resort) and
// include. Values keep the text that they were written as; the caller says what
// a value is, as with [Value.Duration] or [Value.Bool].
//
// Not read: properties files, an array as the root, and inclusion of URLs.
//
// [Parse] opens no file and reads no environment by itself: both come from the
// caller. Text is bounded in size and depth, and so is what substitutions make
// of it: a text of a few lines cannot grow into gigabytes. Errors are of type
// [*Error] and name the line and the column.
//
// The package has no state. A [Value] is not changed once it was returned, and
// is safe for concurrent use.
package hocon
