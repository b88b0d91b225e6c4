// Package selector parses and evaluates message selectors: the conditions of
// SQL-92 that JMS 1.1 (section 3.8.1) and JMS 2.0 define.
//
// A selector is made by [Parse], never changes, and may be used by any number of
// goroutines. [Selector.Match] allocates nothing.
//
// # What is accepted
//
//   - AND, OR, NOT with parentheses; = <> < <= > >=; + - * / and signs; BETWEEN,
//     IN, LIKE with ESCAPE and IS NULL, each with NOT. Words are read in any case.
//   - Literals: 'text' (a quote in it is doubled), 57, 0x1F, 017, 7L, 7., -95.7, .5, 7E3,
//     TRUE and FALSE.
//   - Identifiers begin with a letter, _ or $ and go on with those and digits; they
//     are compared byte for byte. One in double quotes, such as "content-type", may
//     hold any other sign but a double quote, as headers of STOMP need.
//   - Beyond JMS: numbers in the list of IN, and the prefixes of ActiveMQ:
//     "hyphenated_props:" lets identifiers hold hyphens, and then a minus needs a
//     space before it; "convert_string_expressions:" asks for what is done anyway.
//   - JMSDestination, JMSReplyTo, JMSExpiration and JMSRedelivered are refused, as
//     JMS demands, and so is JMSXDeliveryCount: it changes, what a selector says of
//     a message does not.
//
// # Values
//
// Logic has three values. What is not there is unknown, and so is all that is
// computed from it; only TRUE selects a message. NOT of unknown is unknown.
//
// Integers are 64 bits wide and wrap as in Java; with a float they become one. A
// division of integers is one of integers; by zero it is unknown.
//
// Headers of STOMP are strings. As in ActiveMQ with its conversion turned on, a
// string that meets a number is read as a number, in decimal with an optional
// exponent: count > 5 holds for a header "7". One that is no number is a value of
// another type: by JMS the comparison is then false, = and <> alike; in arithmetic
// it is unknown. "true" and "false", in any case, meet booleans in the same way.
// Two strings are compared by = and <> only, byte for byte; the other comparisons
// take both sides for numbers. LIKE is for strings; of a number it is false.
package selector
