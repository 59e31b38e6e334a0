//! Limits for rows that any client can create without a credential. If a new row exceeds the
//! maximum, the oldest row of the network with the most rows is deleted. So a party that creates
//! many rows displaces only its own rows.
//!
//! The region with the most rows is chosen first, and then the network with the most rows in this
//! region. Counting only networks is not enough, because one party can have an IPv6 /48, which
//! contains 65,536 networks (/64).

use std::net::IpAddr;

use latchmail_core::network;

use crate::db::{Error, Tx};

/// The maximum number of rows that meet the condition of a [`Crowd`].
pub(super) const MAX_ROWS: i64 = 10_000;

/// The queries of a table, which must have the columns `network` and `region`.
pub(super) struct Crowd {
    /// Returns the number of rows.
    pub(super) count: &'static str,
    /// Deletes the oldest rows of the network with the most rows. $1 is the number of rows to
    /// delete.
    pub(super) displace: &'static str,
}

/// Creates the queries for the rows of `$table` that meet `$condition`. `$id` is the primary key.
/// An older row has a lower value in the column `$age`.
macro_rules! crowd {
    ($table:literal, $id:literal, $age:literal, $condition:literal) => {
        $crate::crowd::Crowd {
            count: concat!("SELECT COUNT(*) FROM ", $table, " WHERE ", $condition),
            displace: concat!(
                "WITH crowd AS (SELECT ",
                $id,
                " AS id, ",
                $age,
                " AS age, network, region FROM ",
                $table,
                " WHERE ",
                $condition,
                "), busiest AS (SELECT network, region FROM crowd WHERE region = \
                    (SELECT region FROM crowd GROUP BY region \
                        ORDER BY COUNT(*) DESC, MIN(age) LIMIT 1) \
                    GROUP BY network, region ORDER BY COUNT(*) DESC, MIN(age) LIMIT 1) \
                DELETE FROM ",
                $table,
                " WHERE ",
                $id,
                " IN (SELECT c.id FROM crowd c \
                    JOIN busiest b ON c.network = b.network AND c.region = b.region \
                    ORDER BY c.age, c.id LIMIT $1)"
            ),
        }
    };
}

pub(super) use crowd;

impl Crowd {
    /// Deletes rows, so that one more row does not exceed [`MAX_ROWS`].
    pub(super) async fn make_room(&self, tx: &mut Tx) -> Result<(), Error> {
        let rows: i64 = tx.value(self.count, ()).await?;
        let excess = rows + 1 - MAX_ROWS;
        if excess > 0 {
            tx.execute(self.displace, [excess]).await?;
        }
        Ok(())
    }
}

/// Returns the network and the region of a client, for the columns of a table.
pub(super) fn origin(client: IpAddr) -> (String, String) {
    let text = |address: IpAddr| address.to_string();
    (
        text(network::network(client)),
        text(network::region(client)),
    )
}
