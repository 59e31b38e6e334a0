//! Records of deleted app passwords. The mail server may have open connections for these app
//! passwords.
//!
//! A trigger records an app password in the transaction that deletes the app password. So the
//! record is not lost if the service crashes or if the mail server is unreachable. The `mailbox`
//! crate ends the connections.

use latchmail_core::clock::Timestamp;

use super::Credentials;
use crate::db::Error;

const ENDED: &str = "SELECT app_password_id, ended_at FROM ended_app_passwords WHERE ended_at <= $1 \
    ORDER BY ended_at, app_password_id LIMIT $2";
const FORGET: &str = "DELETE FROM ended_app_passwords WHERE app_password_id = $1";

impl Credentials {
    /// Returns up to `most` ids of app passwords that were deleted at or before `then`, each with
    /// the time of the deletion. The earliest deletion comes first.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn ended_by(
        &self,
        then: Timestamp,
        most: i64,
    ) -> Result<Vec<(String, Timestamp)>, Error> {
        let rows: Vec<(String, i64)> = self.db.all(ENDED, (then, most)).await?;
        let dated = rows
            .into_iter()
            .map(|(id, at)| (id, Timestamp::from_millis(at)));
        Ok(dated.collect())
    }

    /// Deletes the records of these app passwords. The caller must have ended all connections of
    /// these app passwords, or must have stopped trying to end them.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails.
    pub async fn forget_ended(&self, app_passwords: &[String]) -> Result<(), Error> {
        if app_passwords.is_empty() {
            return Ok(());
        }
        let mut tx = self.db.begin().await?;
        for id in app_passwords {
            tx.execute(FORGET, [id]).await?;
        }
        tx.commit().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Fresh, NOW, both};
    use latchmail_core::caller::Origin;

    async fn ended(fresh: &Fresh) -> Vec<String> {
        let ended = fresh
            .directory
            .credentials
            .ended_by(NOW, 100)
            .await
            .unwrap();
        let mut ids: Vec<String> = ended.into_iter().map(|(id, _)| id).collect();
        ids.sort();
        ids
    }

    async fn whatever_takes_an_app_password_away_it_is_remembered(fresh: Fresh) {
        let directory = &fresh.directory;
        for (id, address, sessions) in [
            ("a", "ada@example.org", &["s", "t"]),
            ("b", "bob@example.org", &["u", "v"]),
        ] {
            directory.with(id, address, sessions).await;
        }
        assert!(ended(&fresh).await.is_empty());
        fresh
            .execute("DELETE FROM app_passwords WHERE id = 's-password'")
            .await;
        assert_eq!(ended(&fresh).await, ["s-password"]);
        let origin = Origin::default();
        let deleted = directory.accounts.delete("b", NOW, &origin).await;
        assert!(deleted.unwrap());
        let all = ["s-password", "u-password", "v-password"];
        assert_eq!(ended(&fresh).await, all);

        let known = directory.credentials.ended_by(NOW, 100).await.unwrap();
        let now = latchmail_core::clock::Clock::system().now().seconds();
        for (id, at) in known {
            assert!((now - at.seconds()).abs() < 60, "{id}: {at}");
        }
        let before = Timestamp::from_millis(0);
        assert!(
            directory
                .credentials
                .ended_by(before, 100)
                .await
                .unwrap()
                .is_empty()
        );
    }

    async fn what_is_forgotten_is_gone_and_nothing_else(fresh: Fresh) {
        fresh
            .directory
            .with("a", "ada@example.org", &["s", "t"])
            .await;
        fresh.execute("DELETE FROM app_passwords").await;
        fresh
            .directory
            .credentials
            .forget_ended(&["s-password".into(), "nobody".into()])
            .await
            .unwrap();
        assert_eq!(ended(&fresh).await, ["t-password"]);
    }

    /// A deletion that is rolled back leaves no record.
    async fn an_app_password_that_stays_after_all_is_not_remembered(fresh: Fresh) {
        fresh.directory.with("a", "ada@example.org", &["s"]).await;
        let mut tx = fresh.directory.db().begin().await.unwrap();
        tx.execute("DELETE FROM app_passwords", ()).await.unwrap();
        drop(tx);
        assert!(ended(&fresh).await.is_empty());
    }

    both!(
        whatever_takes_an_app_password_away_it_is_remembered,
        what_is_forgotten_is_gone_and_nothing_else,
        an_app_password_that_stays_after_all_is_not_remembered,
    );
}
