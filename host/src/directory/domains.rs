//! Domains that mail is taken for: the platform's own, which the configuration names.

use std::collections::BTreeSet;

use super::db::on_tx;
use super::{Directory, Error};

const CONFIGURED: &str = "SELECT domain FROM platform_domains WHERE added_at IS NULL";
const ADD_PLATFORM: &str =
    "INSERT INTO platform_domains (domain) VALUES ($1) ON CONFLICT (domain) DO NOTHING";
const REMOVE_PLATFORM: &str = "DELETE FROM platform_domains WHERE domain = $1";

impl Directory {
    /// Makes the platform's domains exactly `domains`, in lower case.
    pub(super) async fn set_platform_domains(&self, domains: &[String]) -> Result<(), Error> {
        let wanted: BTreeSet<String> = domains.iter().map(|d| d.to_lowercase()).collect();
        let mut tx = self.db.begin().await?;
        let present: Vec<String> =
            on_tx!(&mut tx, db => sqlx::query_scalar(CONFIGURED).fetch_all(db).await)?;
        let present = BTreeSet::from_iter(present);
        for gone in present.difference(&wanted) {
            on_tx!(&mut tx, db => sqlx::query(REMOVE_PLATFORM).bind(gone).execute(db).await.map(drop))?;
        }
        for new in wanted.difference(&present) {
            on_tx!(&mut tx, db => sqlx::query(ADD_PLATFORM).bind(new).execute(db).await.map(drop))?;
        }
        tx.commit().await
    }
}

#[cfg(test)]
mod tests {
    use super::super::Directory;
    use super::super::testing::{Fresh, both};

    const DOMAINS: &str = "SELECT domain, domain FROM mailserver_domains ORDER BY domain";

    async fn the_platforms_domains_are_those_of_the_last_start(fresh: Fresh) {
        for (configured, read) in [
            (
                vec!["b.example", "A.example"],
                vec!["a.example", "b.example"],
            ),
            (
                vec!["c.example", "b.example"],
                vec!["b.example", "c.example"],
            ),
            (vec![], vec![]),
        ] {
            let configured: Vec<String> = configured.into_iter().map(Into::into).collect();
            Directory::open(&fresh.config, &configured).await.unwrap();
            let seen = fresh.as_mail_server(DOMAINS).await;
            let seen: Vec<&str> = seen.iter().map(|(domain, _)| domain.as_str()).collect();
            assert_eq!(seen, read);
        }
    }

    both!(the_platforms_domains_are_those_of_the_last_start);
}
