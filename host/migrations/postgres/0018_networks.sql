-- Who may fill a table from outside: rows that strangers cause are counted and evicted by the network that caused them.

-- An IPv4 address or the /64 of an IPv6 one; empty if it is not known.
ALTER TABLE security_events ADD COLUMN network TEXT NOT NULL DEFAULT '';
CREATE INDEX security_events_of_strangers ON security_events (network, at) WHERE account_id IS NULL AND kind = 'sign_in_failed';
CREATE INDEX security_events_of_all_strangers ON security_events (at) WHERE account_id IS NULL AND kind = 'sign_in_failed';

-- Where a client registered itself: the same, and the IPv4 /16 or IPv6 /32 around it.
ALTER TABLE oauth_clients ADD COLUMN network TEXT NOT NULL DEFAULT '';
ALTER TABLE oauth_clients ADD COLUMN region TEXT NOT NULL DEFAULT '';
