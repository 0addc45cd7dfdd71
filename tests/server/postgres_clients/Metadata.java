import java.sql.*;
import java.util.Properties;

/** What pgjdbc sees through the port: one line for each thing, `name rows`, or `name value`. */
public class Metadata {
    static void count(String name, ResultSet rows) throws SQLException {
        int n = 0;
        StringBuilder first = new StringBuilder();
        int columns = rows.getMetaData().getColumnCount();
        while (rows.next()) {
            n++;
            for (int i = 1; i <= columns; i++) rows.getObject(i);
        }
        System.out.println(name + " " + n);
        rows.close();
    }

    public static void main(String[] args) throws Exception {
        Properties given = new Properties();
        given.setProperty("user", args[1]);
        given.setProperty("password", System.getenv("PGPASSWORD"));
        given.setProperty("sslmode", "disable");
        given.setProperty("options", "-c dpsql.epsilon=0.5");
        try (Connection c = DriverManager.getConnection(args[0], given)) {
            DatabaseMetaData d = c.getMetaData();
            System.out.println("driver " + d.getDriverVersion());
            System.out.println("server " + d.getDatabaseMajorVersion());
            count("getTables", d.getTables(null, "public", "%", new String[] {"TABLE"}));
            count("getTables-all", d.getTables(null, null, "%", null));
            count("getColumns", d.getColumns(null, "public", "trips", "%"));
            count("getColumns-all", d.getColumns(null, null, "%", "%"));
            count("getPrimaryKeys", d.getPrimaryKeys(null, "public", "trips"));
            count("getImportedKeys", d.getImportedKeys(null, "public", "trips"));
            count("getExportedKeys", d.getExportedKeys(null, "public", "city"));
            count("getIndexInfo", d.getIndexInfo(null, "public", "trips", false, false));
            count("getSchemas", d.getSchemas());
            count("getCatalogs", d.getCatalogs());
            count("getTableTypes", d.getTableTypes());
            count("getTypeInfo", d.getTypeInfo());
            count("getProcedures", d.getProcedures(null, null, "%"));
            count("getFunctions", d.getFunctions(null, null, "%"));
            count("getTablePrivileges", d.getTablePrivileges(null, "public", "%"));
            count("getBestRowIdentifier", d.getBestRowIdentifier(null, "public", "trips", 0, true));
            try (PreparedStatement s = c.prepareStatement(
                    "SELECT city, COUNT(*) AS n, AVG(minutes) AS m FROM visits WHERE minutes > ? GROUP BY city")) {
                System.out.println("columns " + s.getMetaData().getColumnCount());
                for (int i = 0; i < 7; i++) { // from the fifth on it is prepared, and comes in binary
                    s.setInt(1, 5);
                    ResultSet rows = s.executeQuery();
                    int n = 0;
                    while (rows.next()) {
                        n++;
                        rows.getString(1);
                        rows.getLong(2);
                        rows.getDouble(3);
                    }
                    if (i == 6) System.out.println("query " + n);
                }
                System.out.println("notice " + s.getWarnings().getMessage());
            }
            c.setAutoCommit(false);
            try (Statement s = c.createStatement()) {
                s.setFetchSize(1); // portals with a limit
                count("fetched", s.executeQuery("SELECT * FROM city"));
            }
            c.commit();
            try (PreparedStatement s = c.prepareStatement("SELECT COUNT(*) FROM trips WHERE day >= ? AND price < ?")) {
                s.setDate(1, Date.valueOf("2024-01-01"));
                s.setBigDecimal(2, new java.math.BigDecimal("100.50"));
                count("typed", s.executeQuery());
            }
            try (Statement s = c.createStatement()) {
                s.executeQuery("SELECT cty FROM visits");
            } catch (SQLException refused) {
                System.out.println("refused " + refused.getSQLState());
            }
        }
    }
}
