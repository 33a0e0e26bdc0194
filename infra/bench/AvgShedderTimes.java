import java.nio.file.Path;
import org.apache.pulsar.broker.ServiceConfiguration;
import org.apache.pulsar.broker.loadbalance.impl.AvgShedder;

/** Lets Pulsar's AvgShedder alone decide on a cluster, again and again in one warm JVM, and prints the JSON line of
 *  PulsarShedders each time; configured as there.
 *
 *  java -cp "CLASSES:JARS/*" AvgShedderTimes CLUSTER_DIR OUT_DIR CYCLES TIMES */
public class AvgShedderTimes {
    public static void main(String[] args) throws Exception {
        PulsarShedders.outDir = Path.of(args[1]);
        int cycles = Integer.parseInt(args[2]);
        for (int time = 0; time < Integer.parseInt(args[3]); time++) {
            PulsarShedders.read(Path.of(args[0]));
            PulsarShedders.moves = 0;
            PulsarShedders.repeats = 0;
            PulsarShedders.seen = new int[PulsarShedders.owner.length];
            ServiceConfiguration configuration = new ServiceConfiguration();
            configuration.setLoadBalancerSheddingConditionHitCountThreshold(0);
            configuration.setLoadBalanceSheddingDelayInSeconds(0);
            AvgShedder shedder = new AvgShedder();
            PulsarShedders.shed(shedder, shedder, configuration, cycles, "AvgShedder");
        }
        System.exit(0);
    }
}
