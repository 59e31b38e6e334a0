//! Searches in a person's mailbox.

use std::fmt::Write as _;

use serde_json::Value;

use crate::{Person, Response, wait_until};

/// Returns the subjects of the messages in a response, in its order.
pub fn subjects_of(response: &Value) -> Vec<String> {
    let messages = response["messages"].as_array().unwrap().iter();
    let subject = |message: &Value| message["subject"].as_str().unwrap().to_owned();
    messages.map(subject).collect()
}

/// Encodes every byte of a text for a query string.
pub fn percent_encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        write!(encoded, "%{byte:02X}").unwrap();
        encoded
    })
}

impl Person<'_> {
    /// Returns the response to a search. `rest` contains more parameters: `&folder=*`.
    pub async fn search(&self, query: &str, rest: &str) -> Response {
        let query = percent_encoded(query);
        self.send(&format!("GET /api/v1/mail/search?q={query}{rest}"))
            .await
    }

    /// Returns the subjects of all messages that a search finds. The index must serve the search,
    /// and there can be at most 100 messages.
    pub async fn found(&self, query: &str, rest: &str) -> Vec<String> {
        let response = self.search(query, &format!("&limit=100{rest}")).await;
        let response = response.succeeds(200);
        assert_eq!(response["index"], "ready", "{query}");
        let subjects = subjects_of(&response);
        assert_eq!(response["total"], subjects.len(), "{query}");
        subjects
    }

    /// Waits until the search index of the mailbox is complete. The first call starts its build.
    pub async fn wait_for_index(&self) {
        wait_until("the search index is ready", async || {
            let response = self.search("nothing", "&folder=*").await;
            response.succeeds(200)["index"] == "ready"
        })
        .await;
    }
}
