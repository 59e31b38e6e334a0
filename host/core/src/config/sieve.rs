//! `[sieve]`: connections to the mail server's ManageSieve service.

use super::values::section;

section! {
    /// The section `[sieve]` of the configuration.
    pub struct Sieve {
        /// `host:port` of the ManageSieve service (RFC 5804). The service logs in with the
        /// credentials of IMAP. With `imap.tls`, the connection must support STARTTLS. If empty,
        /// the service offers neither vacation responses nor rules.
        pub address: String,
    }
}
