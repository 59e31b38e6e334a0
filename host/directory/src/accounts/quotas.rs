//! The quotas of plans. The service writes the configured quotas to the database at every start.

use std::collections::BTreeMap;

use super::Accounts;
use crate::db::{Error, Source};

const STORED: &str = "SELECT plan, storage FROM plan_quotas";
const SET: &str = "INSERT INTO plan_quotas (plan, storage) VALUES ($1, $2) \
    ON CONFLICT (plan) DO UPDATE SET storage = excluded.storage";
const REMOVE: &str = "DELETE FROM plan_quotas WHERE plan = $1";

#[derive(sqlx_macros::FromRow)]
struct Row {
    plan: String,
    storage: Option<i64>,
}

impl Accounts {
    /// Sets the quotas of all plans, in bytes. A plan without a limit has the value `None`. An
    /// account whose plan is not in `quotas` has the quota of the plan `default`.
    ///
    /// # Errors
    /// Returns [`Error`] if the database fails. Nothing is changed in that case.
    pub async fn set_plan_quotas(
        &self,
        quotas: &BTreeMap<String, Option<u64>>,
    ) -> Result<(), Error> {
        let stored = |bytes: u64| i64::try_from(bytes).unwrap_or(i64::MAX);
        let wanted: BTreeMap<&str, Option<i64>> = quotas
            .iter()
            .map(|(plan, storage)| (plan.as_str(), storage.map(stored)))
            .collect();
        let mut tx = self.db.begin().await?;
        let rows: Vec<Row> = tx.all(STORED, ()).await?;
        let present: BTreeMap<&str, Option<i64>> = rows
            .iter()
            .map(|row| (row.plan.as_str(), row.storage))
            .collect();
        if present == wanted {
            return Ok(());
        }
        // In the order of the names, so services that start concurrently cannot deadlock.
        for (plan, storage) in &wanted {
            tx.execute(SET, (*plan, *storage)).await?;
        }
        for plan in present.keys().filter(|plan| !wanted.contains_key(*plan)) {
            tx.execute(REMOVE, [*plan]).await?;
        }
        tx.project(Source::Quotas).await?;
        tx.commit().await
    }
}
