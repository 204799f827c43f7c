CREATE TABLE audit_log (
  id BIGSERIAL NOT NULL,
  at VARCHAR(40) NOT NULL,
  actor TEXT NOT NULL,
  action VARCHAR(100) NOT NULL,
  object TEXT NOT NULL,
  address_hash VARCHAR(64),
  detail TEXT NOT NULL,
  PRIMARY KEY (id)
)

CREATE TABLE job (
  id BIGSERIAL NOT NULL,
  kind VARCHAR(40) NOT NULL,
  args TEXT NOT NULL,
  state VARCHAR(10) NOT NULL,
  worker VARCHAR(80),
  lease FLOAT,
  beat INTEGER NOT NULL,
  attempt INTEGER NOT NULL,
  fence INTEGER NOT NULL,
  progress TEXT,
  result TEXT,
  error TEXT,
  created_at VARCHAR(40) NOT NULL,
  done_at VARCHAR(40),
  PRIMARY KEY (id)
)

CREATE INDEX job_state_lease ON job (state, lease)

CREATE TABLE setting (
  key VARCHAR(80) NOT NULL,
  value TEXT NOT NULL,
  PRIMARY KEY (key)
)

CREATE TABLE study (
  id BIGSERIAL NOT NULL,
  public_id VARCHAR(40) NOT NULL,
  kind VARCHAR(20) NOT NULL,
  name TEXT NOT NULL,
  state VARCHAR(10) NOT NULL,
  version INTEGER NOT NULL,
  config_hash VARCHAR(64) NOT NULL,
  created_at VARCHAR(40) NOT NULL,
  closed_at VARCHAR(40),
  fold_version INTEGER NOT NULL,
  library_version VARCHAR(40) NOT NULL,
  PRIMARY KEY (id),
  UNIQUE (public_id)
)

CREATE TABLE admin (
  id BIGSERIAL NOT NULL,
  name VARCHAR(200) NOT NULL,
  password TEXT,
  role VARCHAR(20) NOT NULL,
  study BIGINT,
  created_at VARCHAR(40) NOT NULL,
  disabled_at VARCHAR(40),
  PRIMARY KEY (id),
  UNIQUE (name),
  FOREIGN KEY(study) REFERENCES study (id)
)

CREATE INDEX ix_admin_study ON admin (study)

CREATE TABLE api_token (
  id BIGSERIAL NOT NULL,
  study BIGINT NOT NULL,
  digest BYTEA NOT NULL,
  scopes VARCHAR(100) NOT NULL,
  created_at VARCHAR(40) NOT NULL,
  expires_at VARCHAR(40),
  revoked_at VARCHAR(40),
  last_used_at VARCHAR(40),
  PRIMARY KEY (id),
  FOREIGN KEY(study) REFERENCES study (id),
  UNIQUE (digest)
)

CREATE INDEX ix_api_token_study ON api_token (study)

CREATE TABLE artifact (
  id BIGSERIAL NOT NULL,
  study BIGINT,
  job BIGINT,
  name TEXT NOT NULL,
  media_type VARCHAR(100) NOT NULL,
  sha256 VARCHAR(64) NOT NULL,
  bytes BIGINT NOT NULL,
  path TEXT NOT NULL,
  created_at VARCHAR(40) NOT NULL,
  PRIMARY KEY (id),
  FOREIGN KEY(study) REFERENCES study (id),
  FOREIGN KEY(job) REFERENCES job (id)
)

CREATE INDEX ix_artifact_job ON artifact (job)

CREATE INDEX ix_artifact_study ON artifact (study)

CREATE TABLE party (
  id BIGSERIAL NOT NULL,
  study BIGINT NOT NULL,
  public_id VARCHAR(40) NOT NULL,
  role VARCHAR(20) NOT NULL,
  label TEXT NOT NULL,
  locale VARCHAR(20),
  created_at VARCHAR(40) NOT NULL,
  erased_at VARCHAR(40),
  PRIMARY KEY (id),
  FOREIGN KEY(study) REFERENCES study (id),
  UNIQUE (public_id)
)

CREATE INDEX ix_party_study ON party (study)

CREATE TABLE study_version (
  id BIGSERIAL NOT NULL,
  study BIGINT NOT NULL,
  version INTEGER NOT NULL,
  config TEXT NOT NULL,
  config_hash VARCHAR(64) NOT NULL,
  PRIMARY KEY (id),
  UNIQUE (study, version),
  FOREIGN KEY(study) REFERENCES study (id)
)

CREATE INDEX ix_study_version_study ON study_version (study)

CREATE TABLE link (
  id BIGSERIAL NOT NULL,
  study BIGINT NOT NULL,
  party BIGINT,
  digest BYTEA NOT NULL,
  created_at VARCHAR(40) NOT NULL,
  expires_at VARCHAR(40),
  revoked_at VARCHAR(40),
  first_used_at VARCHAR(40),
  cap INTEGER,
  used INTEGER NOT NULL,
  PRIMARY KEY (id),
  FOREIGN KEY(study) REFERENCES study (id),
  FOREIGN KEY(party) REFERENCES party (id),
  UNIQUE (digest)
)

CREATE INDEX ix_link_party ON link (party)

CREATE INDEX ix_link_study ON link (study)

CREATE TABLE stream (
  id VARCHAR(80) NOT NULL,
  study BIGINT NOT NULL,
  party BIGINT,
  version INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  hash VARCHAR(64) NOT NULL,
  PRIMARY KEY (id),
  FOREIGN KEY(study) REFERENCES study (id),
  FOREIGN KEY(party) REFERENCES party (id)
)

CREATE INDEX ix_stream_party ON stream (party)

CREATE INDEX ix_stream_study ON stream (study)

CREATE TABLE event (
  id BIGSERIAL NOT NULL,
  stream VARCHAR(80) NOT NULL,
  seq INTEGER NOT NULL,
  kind VARCHAR(200) NOT NULL,
  body TEXT,
  salt VARCHAR(32),
  body_hash VARCHAR(64) NOT NULL,
  key VARCHAR(200) NOT NULL,
  actor TEXT NOT NULL,
  at VARCHAR(40) NOT NULL,
  hash VARCHAR(64) NOT NULL,
  PRIMARY KEY (id),
  UNIQUE (stream, seq),
  UNIQUE (stream, key),
  FOREIGN KEY(stream) REFERENCES stream (id)
)

CREATE TABLE session (
  id BIGSERIAL NOT NULL,
  digest BYTEA NOT NULL,
  role VARCHAR(20) NOT NULL,
  party BIGINT,
  admin BIGINT,
  link BIGINT,
  created_at VARCHAR(40) NOT NULL,
  expires_at VARCHAR(40) NOT NULL,
  last_used_at VARCHAR(40) NOT NULL,
  PRIMARY KEY (id),
  UNIQUE (digest),
  FOREIGN KEY(party) REFERENCES party (id),
  FOREIGN KEY(admin) REFERENCES admin (id),
  FOREIGN KEY(link) REFERENCES link (id)
)

CREATE INDEX ix_session_admin ON session (admin)

CREATE INDEX ix_session_link ON session (link)

CREATE INDEX ix_session_party ON session (party)

CREATE FUNCTION event_append_only() RETURNS trigger AS $$
BEGIN
  IF TG_OP <> 'UPDATE' THEN
    RAISE EXCEPTION 'events cannot be deleted';
  END IF;
  IF NEW.body IS NOT NULL OR NEW.salt IS NOT NULL
     OR (NEW.id, NEW.stream, NEW.seq, NEW.kind, NEW.body_hash, NEW.key, NEW.actor, NEW.at, NEW.hash)
        IS DISTINCT FROM
        (OLD.id, OLD.stream, OLD.seq, OLD.kind, OLD.body_hash, OLD.key, OLD.actor, OLD.at, OLD.hash)
  THEN
    RAISE EXCEPTION 'events cannot be changed, only their content erased';
  END IF;
  RETURN NEW;
END $$ LANGUAGE plpgsql

CREATE TRIGGER event_kept BEFORE UPDATE OR DELETE ON event
FOR EACH ROW EXECUTE FUNCTION event_append_only()

CREATE TRIGGER event_not_truncated BEFORE TRUNCATE ON event
FOR EACH STATEMENT EXECUTE FUNCTION event_append_only()

CREATE FUNCTION audit_log_append_only() RETURNS trigger AS $$
BEGIN
  RAISE EXCEPTION 'the audit log cannot be changed';
END $$ LANGUAGE plpgsql

CREATE TRIGGER audit_log_kept BEFORE UPDATE OR DELETE ON audit_log
FOR EACH ROW EXECUTE FUNCTION audit_log_append_only()

CREATE TRIGGER audit_log_not_truncated BEFORE TRUNCATE ON audit_log
FOR EACH STATEMENT EXECUTE FUNCTION audit_log_append_only()
