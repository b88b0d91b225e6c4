// Package sigv4 verifies AWS Signature Version 4 (AWS4-HMAC-SHA256), in the
// Authorization header or in the query of a presigned URL.
//
// [Verifier.Open] looks at all that can be judged before the body is there: form,
// access key, scope and time. [Verifier.Verify] then looks at the signature,
// which covers the body.
//
// # Invariants
//
//   - The host is taken as it was sent: what a node is called is its clients'
//     business. It must be signed.
//   - A header that a request is dispatched by (Options.Covered) must be signed
//     where it is sent.
//   - A signing key is cached only after a signature made with it was right, so
//     that nobody without a secret can fill the cache.
//   - Signatures are compared in constant time.
//
// A Verifier is safe for concurrent use. A [Claim] belongs to one goroutine, and
// holds views of the request until it is opened again.
package sigv4
