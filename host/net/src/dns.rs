//! DNS lookups: TXT records, addresses, and the state of the records that a custom domain needs.
//!
//! Queries a resolver and trusts its responses. [`Dns`] uses no cache, so that a corrected record
//! is found immediately.
//!
//! The parsers of SPF and DMARC records are our own code, because the parsers of mail-auth 0.13.3
//! are wrong. The SPF parser of mail-auth accepts 12 of the 29 invalid records that were tested.
//! The DMARC parser of mail-auth has a wrong result for 3 of the 24 records that were tested.
//!
//! | file | purpose |
//! |---|---|
//! | `client` | sends queries |
//! | `resolver` | builds resolvers from the configuration |
//! | `name` | normalizes domain names |
//! | `records` | checks the records that a domain needs |
//! | `spf`, `spf/policy` | evaluates and parses SPF records |
//! | `dmarc` | parses DMARC records |
//! | `tags` | parses tag lists, the format of DKIM records |

mod client;
mod dmarc;
mod name;
mod records;
mod resolver;
mod spf;
mod tags;

pub use client::{Dns, LookupError};
pub(crate) use name::normalize_host;
pub use name::{DomainName, InvalidDomain};
pub use records::{Kind, Record, dkim_value};
pub use resolver::caching_resolver;
