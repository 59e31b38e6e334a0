//! `[limits]`: the rate limits.

use serde::Deserialize;

/// `[limits]`: requests per minute, by bucket.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[expect(missing_docs, reason = "each is the bucket of the same name")]
pub struct Limits {
    pub mail: u32,
    pub search: u32,
    pub aliases: u32,
    pub profile: u32,
    pub tokens: u32,
    pub app_passwords: u32,
    pub sign_in: u32,
    pub sign_in_address: u32,
    pub unproven: u32,
    pub registration: u32,
    pub password_change: u32,
    pub domains_read: u32,
    pub domains_write: u32,
    pub mcp: u32,
    pub teams: u32,
    pub modules: u32,
    pub public: u32,
    pub readiness: u32,
    pub session: u32,
    pub oauth: u32,
    pub admin: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            mail: 60,
            search: 20,
            aliases: 30,
            profile: 30,
            tokens: 30,
            app_passwords: 30,
            sign_in: 5,
            sign_in_address: 5,
            unproven: 300,
            registration: 3,
            password_change: 5,
            domains_read: 30,
            domains_write: 10,
            mcp: 120,
            teams: 30,
            modules: 60,
            public: 30,
            readiness: 60,
            session: 30,
            oauth: 30,
            admin: 60,
        }
    }
}
